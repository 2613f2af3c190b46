package devbroker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

// Layout of kfake's files, of which it promises nothing: repair touches none of
// another version, and a test fails when they change.
const (
	formatVersion = 1
	indexEntry    = 15 // version, checksum, leader epoch, timestamp, flags
	batchHead     = 61 // of a Kafka record batch, up to its records
	maxBatch      = 1 << 30
)

// Attributes of a record batch.
const (
	attrTransactional = 0x10
	attrControl       = 0x20
)

// repair makes good what a kill has left in kfake's files, before kfake reads
// them (limits 1 and 10 of the package doc):
//
//   - an index that is not what its log says is written anew. It only repeats
//     what the batches say of themselves, but kfake believes it;
//   - a transaction that has no end gets an abort marker, as a Kafka broker's
//     coordinator would write it.
//
// It can be killed itself: the next one begins from the same.
func repair(dir string, now time.Time, log *slog.Logger) error {
	if ok, err := known(filepath.Join(dir, "meta.json")); !ok || err != nil {
		return err
	}
	partitions, err := os.ReadDir(filepath.Join(dir, "partitions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("repair: %w", err)
	}
	for _, p := range partitions {
		if !p.IsDir() {
			continue
		}
		aborted, err := repairPartition(filepath.Join(dir, "partitions", p.Name()), now)
		if err != nil {
			return fmt.Errorf("repair partition %s: %w", p.Name(), err)
		}
		if aborted > 0 {
			log.Info("unfinished transactions aborted", obs.KeyPartition, p.Name(), obs.KeyCount, aborted)
		}
	}
	return nil
}

// known says that the directory is of the version that repair understands.
func known(meta string) (bool, error) {
	b, err := os.ReadFile(meta)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("repair: %w", err)
	}
	var m struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return false, fmt.Errorf("repair %s: %w", meta, err)
	}
	return m.Version == formatVersion, nil
}

// batch is what a record batch says of itself.
type batch struct {
	first, last int64 // offsets
	leaderEpoch int32
	attributes  int16
	timestamp   int64
	pid         int64
	epoch       int16
}

func (b *batch) control() bool { return b.attributes&attrControl != 0 }
func (b *batch) inTxn() bool   { return b.attributes&attrTransactional != 0 && !b.control() }

func repairPartition(dir string, now time.Time) (aborted int, err error) {
	bases, err := segments(dir)
	if err != nil {
		return 0, err
	}
	open := make(map[int64]int16) // producer id -> epoch of its transaction without an end
	var last batch
	for i, base := range bases {
		file := filepath.Join(dir, strconv.FormatInt(base, 10))
		batches, size, err := scan(file + ".dat")
		if err != nil {
			return 0, err
		}
		for _, b := range batches {
			last = b
			switch {
			case b.control():
				delete(open, b.pid)
			case b.inTxn():
				open[b.pid] = b.epoch
			}
		}
		if i == len(bases)-1 && len(open) > 0 {
			markers, err := appendMarkers(file+".dat", size, open, last, now)
			if err != nil {
				return 0, err
			}
			batches = append(batches, markers...)
		}
		if err := writeIndex(file+".idx", batches); err != nil {
			return 0, err
		}
	}
	return len(open), nil
}

// segments lists the base offsets of a partition's log files, ascending.
func segments(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var bases []int64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".dat")
		if base, err := strconv.ParseInt(name, 10, 64); ok && err == nil {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

// scan reads a log file up to its end or to the first batch that is not whole,
// which was never acknowledged; size is where that is.
func scan(path string) (batches []batch, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReaderSize(f, 256<<10)
	for {
		var head [batchHead]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return batches, size, endOfFile(err)
		}
		length := int64(binary.BigEndian.Uint32(head[8:]))
		if length < batchHead-12 || length > maxBatch {
			return batches, size, nil
		}
		sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		_, _ = sum.Write(head[21:])
		if _, err := io.CopyN(sum, r, 12+length-batchHead); err != nil {
			return batches, size, endOfFile(err)
		}
		if sum.Sum32() != binary.BigEndian.Uint32(head[17:]) {
			return batches, size, nil
		}
		first := int64(binary.BigEndian.Uint64(head[0:]))
		batches = append(batches, batch{
			first: first, last: first + int64(int32(binary.BigEndian.Uint32(head[23:]))),
			leaderEpoch: int32(binary.BigEndian.Uint32(head[12:])),
			attributes:  int16(binary.BigEndian.Uint16(head[21:])),
			timestamp:   int64(binary.BigEndian.Uint64(head[35:])),
			pid:         int64(binary.BigEndian.Uint64(head[43:])),
			epoch:       int16(binary.BigEndian.Uint16(head[51:])),
		})
		size += 12 + length
	}
}

func endOfFile(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// appendMarkers cuts a log file to size and ends its open transactions.
func appendMarkers(path string, size int64, open map[int64]int16, last batch, now time.Time) ([]batch, error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	var markers []batch
	var raw []byte
	for _, pid := range slices.Sorted(maps.Keys(open)) {
		last = batch{
			first: last.last + 1, last: last.last + 1, leaderEpoch: last.leaderEpoch,
			attributes: attrTransactional | attrControl, timestamp: now.UnixMilli(), pid: pid, epoch: open[pid],
		}
		markers = append(markers, last)
		raw = append(raw, abortMarker(last)...)
	}
	err = f.Truncate(size)
	if err == nil {
		_, err = f.WriteAt(raw, size)
	}
	return markers, errors.Join(err, f.Close())
}

// abortMarker is a control batch as a broker writes it.
func abortMarker(b batch) []byte {
	key := kmsg.ControlRecordKey{Type: kmsg.ControlRecordKeyTypeAbort}
	record := kmsg.Record{Key: key.AppendTo(nil), Value: (&kmsg.EndTxnMarker{}).AppendTo(nil)}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // its own varint is one byte
	marker := kmsg.RecordBatch{
		FirstOffset: b.first, PartitionLeaderEpoch: b.leaderEpoch, Magic: 2, Attributes: b.attributes,
		FirstTimestamp: b.timestamp, MaxTimestamp: b.timestamp, ProducerID: b.pid, ProducerEpoch: b.epoch,
		FirstSequence: -1, NumRecords: 1, Records: record.AppendTo(nil),
	}
	raw := marker.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// writeIndex makes an index say what the batches say, if it does not yet.
func writeIndex(path string, batches []batch) error {
	want := make([]byte, 0, indexEntry*len(batches))
	for _, b := range batches {
		var e [indexEntry]byte
		e[0] = formatVersion
		binary.LittleEndian.PutUint32(e[2:], uint32(b.leaderEpoch))
		binary.LittleEndian.PutUint64(e[6:], uint64(b.timestamp)) // recomputed by kfake when it loads
		if b.inTxn() {
			e[14] = 1
		}
		e[1] = byte(crc32.Checksum(e[2:], crc32.MakeTable(crc32.Castagnoli)))
		want = append(want, e[:]...)
	}
	have, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if bytes.Equal(have, want) {
		return nil
	}
	if err := os.WriteFile(path+".tmp", want, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
