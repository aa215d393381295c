package xtreme

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring/link/record"
)

// openRecorder makes the recorder of the engine's offloaded rings, which records if the settings give it memory (SX_RECORD) or a file for all
// frames (SX_CAPTURE). What cannot be made as the settings say is a warning in the log; VMA_EXCEPTION_HANDLING decides whether it is also an
// error.
func (e *Engine) openRecorder(o *conf.Offload) error {
	capture, captureErr := e.openCapture(o)
	c := &o.Recorder
	var err error
	e.recorder, err = record.New(record.Config{Memory: c.MiB << 20, Snap: c.Snap, Filter: c.Filter, Log: e.log.Logger, Capture: capture,
		Alarm: record.AlarmConfig{Directory: c.Directory, After: c.After, Every: c.Every, Quota: int64(c.Quota) << 20, Gap: c.Gap}})
	if err == nil {
		return captureErr
	}
	err = fmt.Errorf("SX_RECORD=%v: %w", c, err)
	e.log.Warn("nothing is recorded", "error", err)
	e.recorder, _ = record.New(record.Config{Log: e.log.Logger, Capture: capture})
	return errors.Join(captureErr, e.exception("setting", err))
}

// openCapture makes the file to which offloaded rings write their frames; nil if the settings name none, or it cannot be made.
func (e *Engine) openCapture(o *conf.Offload) (*record.Capture, error) {
	if o.Capture == "" {
		return nil, nil
	}
	capture, err := record.OpenCapture(record.CaptureConfig{Path: o.Capture, Snap: o.CaptureSnap, Limit: int64(o.CaptureLimit) << 20, Log: e.log.Logger})
	if err != nil {
		err = fmt.Errorf("SX_CAPTURE=%s: %w", o.Capture, err)
		e.log.Warn("nothing is captured", "error", err)
		return nil, e.exception("setting", err)
	}
	return capture, nil
}

// WriteRecord writes what the recorder has of the last frames of the engine's offloaded rings (SX_RECORD), as pcapng: received and sent ones,
// the reasons of drops and what happened at the loops as comments. last is how far back, 0 for all there is. Any goroutine; no ring waits for
// it.
func (e *Engine) WriteRecord(w io.Writer, last time.Duration) error {
	if last < 0 {
		return fmt.Errorf("xtreme: write record: last %v: want 0 or more", last)
	}
	if _, err := record.Write(w, []*record.Recorder{e.recorder}, record.WriteOptions{Last: last}); err != nil {
		return fmt.Errorf("xtreme: write record: %w", err)
	}
	return nil
}

// captureRequest asks for what the recorders of all engines have, or for what comes.
type captureRequest struct {
	Live   bool          `json:"live"`   // and what comes, until the peer closes
	Only   bool          `json:"only"`   // nothing of before
	Last   time.Duration `json:"last"`   // how far back; 0: all there is
	For    time.Duration `json:"for"`    // of live: how long; 0: until the peer closes
	Filter string        `json:"filter"` // as tcpdump -ddd prints it
	MiB    int           `json:"mib"`    // and Snap: of recorders that are off and are turned on while the capture is live
	Snap   int           `json:"snap"`
}

// capture is the handler of the request "capture".
func (p *publication) capture(with json.RawMessage, w io.Writer) error {
	q := captureRequest{MiB: 8}
	if err := json.Unmarshal(with, &q); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	if q.Last < 0 || q.For < 0 || q.MiB < 1 || q.MiB > 1024 || q.Snap < 0 {
		return fmt.Errorf("capture: last %v, for %v, %d MiB, snap %d: out of range", q.Last, q.For, q.MiB, q.Snap)
	}
	p.mu.Lock()
	var list []*record.Recorder
	for _, e := range p.engines {
		list = append(list, e.recorder)
	}
	p.mu.Unlock()
	o := record.WriteOptions{Last: q.Last, For: q.For, Filter: q.Filter, Done: p.ended}
	if !q.Live {
		_, err := record.Write(w, list, o)
		if errors.Is(err, record.ErrOff) {
			err = fmt.Errorf("%w: SX_RECORD=32 keeps the last 32 MiB; a live capture turns it on for as long as it lasts", err)
		}
		return err
	}
	if err := record.CheckFilter(q.Filter); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	if q.Only { // none that came before; the peer is told that it began after this
		o.Last, o.Since = 0, time.Now()
	}
	for _, r := range list {
		if err := r.Start(q.MiB<<20, q.Snap); err != nil {
			return err
		}
		defer r.Stop()
	}
	if _, err := w.Write(nil); err != nil { // the peer learns at once that it began
		return err
	}
	_, err := record.Stream(w, list, o)
	return err
}
