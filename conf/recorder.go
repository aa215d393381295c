package conf

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Recorder says what an engine keeps of the frames of its offloaded rings, and when it writes them to a file by itself (SX_RECORD). The zero
// value keeps nothing.
type Recorder struct {
	MiB       int           // of memory for the last frames; 0: none are kept
	Snap      int           // bytes of a frame that are kept, 14 or more; 0: all
	Directory string        // of the files for which something was lost; empty: none is written by itself
	After     time.Duration // how long frames are written after what was lost
	Every     time.Duration // the least time between two files
	Quota     int           // MiB that all files in the directory may have; the oldest make room
	Gap       time.Duration // a gap between two polls for which a file is written, too; 0: for none
	Filter    string        // a program as tcpdump -ddd prints it; empty: all frames are kept
}

// recorderDefaults are the values of what a text does not name.
var recorderDefaults = Recorder{Snap: 128, After: 2 * time.Second, Every: time.Minute, Quota: 256}

// ParseRecorder reads a text such as "32" or "32,snap=0,dir=/var/tmp,after=2s,every=1m,quota=256,gap=10ms,filter=4,40 0 0 12,…": the MiB, then
// what differs from 128 bytes, no directory, two seconds, a minute, 256 MiB, no gap, no filter. The filter is last. Empty is none.
func ParseRecorder(text string) (Recorder, error) {
	if text == "" {
		return Recorder{}, nil
	}
	r := recorderDefaults
	first, rest, _ := strings.Cut(text, ",")
	bad := func(part, want string) (Recorder, error) {
		return Recorder{}, fmt.Errorf("recorder %q: %q: want %s", text, part, want)
	}
	var err error
	if r.MiB, err = strconv.Atoi(first); err != nil {
		return bad(first, "a number of MiB in front")
	}
	for rest != "" {
		var part string
		if strings.HasPrefix(rest, "filter=") {
			part, rest = rest, ""
		} else {
			part, rest, _ = strings.Cut(rest, ",")
		}
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "snap":
			r.Snap, err = strconv.Atoi(value)
		case "dir":
			r.Directory = value
		case "after":
			r.After, err = time.ParseDuration(value)
		case "every":
			r.Every, err = time.ParseDuration(value)
		case "quota":
			r.Quota, err = strconv.Atoi(value)
		case "gap":
			r.Gap, err = time.ParseDuration(value)
		case "filter":
			r.Filter = value
		default:
			return bad(part, "snap, dir, after, every, quota, gap or filter")
		}
		if err != nil {
			return bad(part, "a number, or a time such as 2s")
		}
	}
	if r.MiB == 0 {
		return Recorder{}, nil
	}
	return r, r.validate()
}

// validate returns what is wrong with the values, also of a Recorder made by code.
func (r Recorder) validate() error {
	bad := func(name string, value any, want string) error {
		return fmt.Errorf("recorder: %s %v: want %s", name, value, want)
	}
	switch {
	case r == Recorder{}:
		return nil
	case r.MiB < 1 || r.MiB > 1<<16:
		return bad("MiB", r.MiB, "1 to 65536")
	case r.Snap != 0 && (r.Snap < 14 || r.Snap > 65535):
		return bad("snap", r.Snap, "0 for all, or 14 to 65535")
	case r.After < 0 || r.After > time.Hour:
		return bad("after", r.After, "0s to 1h")
	case r.Every < 0:
		return bad("every", r.Every, "0s or more")
	case r.Directory != "" && (r.Quota < 1 || r.Quota > 1<<20):
		return bad("quota", r.Quota, "1 to 1048576 MiB")
	case r.Gap < 0:
		return bad("gap", r.Gap, "0s or more")
	}
	return nil
}

// String is the recorder as ParseRecorder reads it.
func (r Recorder) String() string {
	if r == (Recorder{}) {
		return ""
	}
	d := recorderDefaults
	text := strconv.Itoa(r.MiB)
	add := func(differs bool, key string, value any) {
		if differs {
			text += fmt.Sprintf(",%s=%v", key, value)
		}
	}
	add(r.Snap != d.Snap, "snap", r.Snap)
	add(r.Directory != d.Directory, "dir", r.Directory)
	add(r.After != d.After, "after", r.After)
	add(r.Every != d.Every, "every", r.Every)
	add(r.Quota != d.Quota, "quota", r.Quota)
	add(r.Gap != d.Gap, "gap", r.Gap)
	add(r.Filter != d.Filter, "filter", r.Filter)
	return text
}
