package endpoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor/sign"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

const (
	// DefaultOverlap is how long a rotated-out secret goes on signing beside its successor.
	DefaultOverlap = 24 * time.Hour
	// MaxOverlap is the longest overlap that may be asked for.
	MaxOverlap = 7 * 24 * time.Hour
	// MaxSecrets is how many secrets may be active at once: it bounds the signature header (C-029).
	MaxSecrets = 5
)

// Rotation says how to rotate a secret.
type Rotation struct {
	// Overlap is how long the present secrets go on signing, beside the new one; those that end sooner still do.
	// 0: they end at once. At most MaxOverlap.
	Overlap time.Duration
	// Secret is the new one; empty: it is minted.
	Secret secret.String
}

// RotateSecret gives an endpoint a new signing secret, which is in the result and shown never again.
// With MaxSecrets active it is refused, unless the overlap is 0.
func (r *Registry) RotateSecret(ctx context.Context, scope, id string, rot Rotation) (Saved, error) {
	var c check
	c.that(rot.Overlap >= 0 && rot.Overlap <= MaxOverlap, "overlap", "must be 0 to %s", MaxOverlap)
	text := rot.Secret
	if text == "" {
		text = newSecret()
	}
	key, err := sign.ParseSecret(text.Reveal())
	if err != nil {
		c.add("secret", "%v", err)
	}
	if err := c.err(); err != nil {
		return Saved{}, err
	}
	saved := Saved{Secret: text}
	saved.Endpoint, err = r.change(ctx, id, func(cur *Endpoint, now time.Time) (*schemas.Endpoint, error) {
		switch {
		case cur == nil || !visible(cur, scope):
			return nil, ErrNotFound
		case isUndecodable(cur), cur.Locked != nil && rot.Overlap > 0:
			return nil, ErrLocked
		}
		next := cur.Endpoint
		next.UpdatedAt = now
		next.Secrets = []schemas.SealedSecret{r.seal(id, key, now)}
		for _, old := range cur.Secrets {
			if end := now.Add(rot.Overlap); old.ExpiresAt.IsZero() || old.ExpiresAt.After(end) {
				old.ExpiresAt = end
			}
			if old.ExpiresAt.After(now) {
				next.Secrets = append(next.Secrets, old)
			}
		}
		if len(next.Secrets) > MaxSecrets {
			return nil, ErrTooManySecrets
		}
		return &next, nil
	})
	if err != nil {
		return Saved{}, err
	}
	return saved, nil
}

// secretsFor gives a version its secrets: the caller's key if it has one, else the present ones that still count,
// else a new one. It returns the text of the secret if that is new.
func (r *Registry) secretsFor(next *schemas.Endpoint, cur *Endpoint, key []byte, now time.Time) (secret.String, error) {
	if isUndecodable(cur) {
		return "", ErrLocked
	}
	if key != nil {
		if cur == nil || len(cur.Keys) == 0 || !bytes.Equal(cur.Keys[0].Secret, key) {
			next.Secrets = []schemas.SealedSecret{r.seal(next.ID, key, now)}
			return secret.String(sign.FormatSecret(key)), nil
		}
	}
	if cur != nil && cur.Locked != nil {
		return "", ErrLocked
	}
	if cur != nil {
		for _, s := range cur.Secrets {
			if s.ExpiresAt.IsZero() || s.ExpiresAt.After(now) {
				next.Secrets = append(next.Secrets, s)
			}
		}
	}
	if len(next.Secrets) > 0 {
		return "", nil
	}
	text := newSecret()
	key, err := sign.ParseSecret(text.Reveal())
	if err != nil {
		return "", fmt.Errorf("mint a secret: %w", err)
	}
	next.Secrets = []schemas.SealedSecret{r.seal(next.ID, key, now)}
	return text, nil
}

func newSecret() secret.String { return secret.String(sign.NewSecret(rand.Reader)) }

func (r *Registry) seal(id string, key []byte, now time.Time) schemas.SealedSecret {
	return schemas.SealedSecret{ID: "sec_" + randomName(), Ciphertext: r.opts.Sealer.Seal(id, key), CreatedAt: now}
}
