package xtreme

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/capture"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// openCapture makes the file for what offloaded rings receive and send, if the settings name one (SX_CAPTURE). One that cannot be had is a
// case for VMA_EXCEPTION_HANDLING; the log tells in any case.
func (e *Engine) openCapture(o *conf.Offload) error {
	if o.Capture == "" {
		return nil
	}
	f, err := capture.Open(capture.Config{Path: o.Capture, Snap: o.CaptureSnap, Limit: int64(o.CaptureLimit) << 20, Log: e.log})
	if err != nil {
		err = fmt.Errorf("SX_CAPTURE=%s: %w", o.Capture, err)
		e.log.Warn("nothing is captured", "error", err)
		return e.exception("setting", err)
	}
	e.nics.capture = f
	return nil
}

func (e *Engine) endCapture() error {
	if e.nics == nil || e.nics.capture == nil {
		return nil
	}
	return e.nics.capture.Close()
}

// captured is a device whose frames go to a file as well.
type captured struct {
	nic.Device
	to *capture.File
}

// captured is the device, with what its queues carry written to the engine's file if there is one.
func (x *interfaces) captured(d nic.Device) nic.Device {
	if x.capture == nil {
		return d
	}
	return captured{d, x.capture}
}

// PrepareQueue opens a queue that is captured.
func (d captured) PrepareQueue(queue int, pool *buffers.DriverPool, fill int) (link.Staged, error) {
	l, err := d.Device.PrepareQueue(queue, pool, fill)
	if err != nil {
		return nil, err
	}
	return d.to.Link(l), nil
}
