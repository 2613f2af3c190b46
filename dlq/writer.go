package dlq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// txnTimeout is when the broker aborts a batch whose writer has died.
	txnTimeout = 10 * time.Second
	// endTimeout bounds the end of a transaction and finding out what it came to,
	// which are never cut short by Ctrl-C. It is over txnTimeout and the 10 s
	// between two looks of a broker for transactions that have outlived theirs.
	endTimeout = 30 * time.Second
	// abortTimeout bounds a polite abort; without it the broker does so itself.
	abortTimeout = 5 * time.Second
	settledEvery = 20 * time.Millisecond
)

// errNotCommitted is an ending without an error of a batch that is not there.
var errNotCommitted = errors.New("the batch was aborted, and nothing of it was written; running again goes on")

// writer commits batches, each in one transaction. After the first error it is
// done for: recovering inside a fenced client could take the id back from the
// newer replay, whose marks this one has not read.
type writer struct {
	cl        *kgo.Client
	log       *log // reads the marks back
	maxRecord int  // bytes of one record, and of one batch on the wire
	failed    bool
	drops     drops
	// last is the highest offset that was committed, by topic and partition.
	last map[string]map[int32]int64
	// heal names the topics written to, with their partition counts, when the
	// broker is the embedded one; see embedded.go.
	heal map[string]int
}

func openWriter(kafka []kgo.Opt, id string, maxRecord int) (*writer, error) {
	w := &writer{maxRecord: maxRecord, last: map[string]map[int32]int64{}}
	opts := append(append([]kgo.Opt{}, kafka...),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(txnTimeout),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(int32(min(maxRecord, maxProduce))),
		kgo.ProducerLinger(0),
		kgo.WithHooks(&w.drops),
	)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make Kafka client: %w", err)
	}
	w.cl = cl
	if w.log, err = openLog(kafka); err != nil {
		cl.Close()
		return nil, err
	}
	return w, nil
}

func (w *writer) close() {
	w.cl.Close()
	w.log.close()
}

// fence takes the transactional id: from here on the broker refuses every
// older writer, and what they had open is aborted. It returns only when that is
// done, so what is read after it is final.
func (w *writer) fence(ctx context.Context) error {
	id, epoch, err := w.cl.ProducerID(ctx)
	if err != nil {
		return fmt.Errorf("take the transactional id: %w", cause(ctx, err))
	}
	if w.heal != nil {
		return writeAbortMarkers(ctx, w.cl, id, epoch, w.heal)
	}
	return nil
}

// commit writes all records, the last of which is a mark, or none, and says
// which it was. It is committed beside an error where the end of the batch went
// wrong for us and not for the broker.
func (w *writer) commit(ctx context.Context, records []*kgo.Record) (committed bool, err error) {
	if w.failed {
		return false, errors.New("writer has failed")
	}
	if err := w.cl.BeginTransaction(); err != nil {
		w.failed = true
		return false, fenced(fmt.Errorf("begin transaction: %w", err))
	}
	drops := w.drops.n.Load()
	produce, stop := context.WithTimeout(ctx, txnTimeout)
	defer stop()
	err = w.cl.ProduceSync(produce, records...).FirstErr()
	if err == nil && w.heal != nil && w.drops.n.Load() != drops {
		err = errDropped
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		w.failed = true
		err = fenced(fmt.Errorf("write batch: %w", cause(ctx, err)))
		if !errors.Is(err, ErrFenced) {
			w.abort(ctx)
		}
		return false, err
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	ending := w.cl.EndTransaction(end, kgo.TryCommit)
	committed, err = w.marked(end, records)
	if err == nil && w.heal != nil && w.drops.n.Load() != drops {
		committed, err = false, errDropped // what is seen now, a restart may take back
	}
	switch {
	case err != nil:
		ending = fmt.Errorf("%w: %w", ErrOutcomeUnknown, errors.Join(ending, err))
	case !committed && ending == nil:
		ending = errNotCommitted
	}
	if ending != nil {
		w.failed = true
		ending = fenced(fmt.Errorf("commit batch: %w", ending))
	}
	if committed {
		w.note(records)
	}
	return committed, ending
}

// marked asks the log whether the batch is in it, when all of its records were
// acknowledged and its end was asked for, whatever came of that.
//
// The client's word is not enough. An ending that failed may have been carried
// out; one that a newer replay refused may be the repetition of one that was
// not; and franz-go v1.22.3 can abort and say nothing: it takes a transaction
// whose topics are all new to it for one in which nothing was produced, when the
// acknowledgements were faster than its own bookkeeping. (A batch goes to two
// topics, and the client happens to have booked one before it lets the records of
// the other go: a chance, not a promise.)
//
// A transaction is whole or not at all, so one mark speaks for the batch. A
// read_committed read of its offset waits until the transaction is decided, if
// need be by the broker's timeout, and from then on the answer is final. Nothing
// has to be fenced for it, which could rob a newer replay of the id.
func (w *writer) marked(ctx context.Context, records []*kgo.Record) (bool, error) {
	mark := records[len(records)-1]
	if mark.Offset < 0 {
		return false, errors.New("the broker did not tell where the mark is")
	}
	found := false
	err := w.log.read(ctx, mark.Topic, mark.Partition, span{mark.Offset, mark.Offset + 1}, func(r *kgo.Record) error {
		if !bytes.Equal(r.Value, mark.Value) {
			return errors.New("another record lies where the mark was written")
		}
		found = true
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look for the mark: %w", err)
	}
	return found, nil
}

// note keeps how far what was committed reaches.
func (w *writer) note(records []*kgo.Record) {
	for _, r := range records {
		if w.last[r.Topic] == nil {
			w.last[r.Topic] = map[int32]int64{}
		}
		w.last[r.Topic][r.Partition] = max(w.last[r.Topic][r.Partition], r.Offset)
	}
}

// settled waits until readers see what was committed, for a few seconds at most:
// the broker answers a commit before its markers are in the partitions, and a
// list made right after a replay should not show letters as waiting. Safety does
// not hang on it, for fence waits for the markers of whoever was before.
func (w *writer) settled(ctx context.Context) {
	if w.failed {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	adm := kadm.NewClient(w.cl)
	for topic, partitions := range w.last {
		for ctx.Err() == nil {
			stable, err := adm.ListCommittedOffsets(ctx, topic)
			behind := err != nil
			for p, offset := range partitions {
				o, ok := stable.Lookup(topic, p)
				behind = behind || !ok || o.Offset <= offset
			}
			if !behind {
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(settledEvery):
			}
		}
	}
}

// abort ends what is open, so that readers need not wait for the timeout.
// Its failure changes nothing: the broker aborts by itself.
func (w *writer) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	if w.cl.AbortBufferedRecords(ctx) == nil {
		_ = w.cl.EndTransaction(ctx, kgo.TryAbort)
	}
}

// fenced marks the errors by which a broker refuses an older writer. An invalid
// state is that of a transaction which was aborted for it meanwhile.
func fenced(err error) error {
	for _, e := range []error{
		kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.TransactionAbortable, kerr.InvalidTxnState,
	} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrFenced, err)
		}
	}
	return err
}

// cause prefers the reason for which ctx ended to what broke because of it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
