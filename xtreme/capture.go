package xtreme

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/capture"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// openCapture makes the file to which offloaded rings write their frames, if the settings name one (SX_CAPTURE). A file that cannot be made is
// a warning in the log; VMA_EXCEPTION_HANDLING decides whether it is also an error.
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

// closeCapture ends the file of openCapture, if there is one.
func (e *Engine) closeCapture() error {
	if e.nics == nil || e.nics.capture == nil {
		return nil
	}
	return e.nics.capture.Close()
}

// capturedDevice is a device whose queues also write their frames to a file.
type capturedDevice struct {
	nic.Device
	to *capture.File
}

// captured returns d, or, if the engine has a capture file, a device that also writes d's frames to it.
func (x *interfaces) captured(d nic.Device) nic.Device {
	if x.capture == nil {
		return d
	}
	return capturedDevice{d, x.capture}
}

// PrepareQueue is that of the device; the link that it returns is captured.
func (d capturedDevice) PrepareQueue(queue int, pool *buffers.DriverPool, fill int) (link.Staged, error) {
	l, err := d.Device.PrepareQueue(queue, pool, fill)
	if err != nil {
		return nil, err
	}
	return d.to.Link(l), nil
}
