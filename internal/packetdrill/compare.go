package packetdrill

import (
	"fmt"
	"slices"
	"strings"
)

// compare lists the differences between a segment that the subject sent and the expected one.
func (r *player) compare(want *Segment, live Packet) (list []string) {
	got := r.numbers.outbound(live)
	differ := func(what string, want, got any) {
		list = append(list, fmt.Sprintf("%s: expected %v, got %v", what, want, got))
	}
	flags := got.Flags
	if r.config.PushOptional {
		flags = flags&^PSH | want.Flags&PSH
	}
	if flags != want.Flags {
		differ("flags", want.Flags, flags)
	}
	if got.Seq != want.Seq {
		differ("seq", want.Seq, got.Seq)
	}
	if len(got.Payload) != want.Length {
		differ("length", want.Length, len(got.Payload))
	}
	if want.HasAck && got.Flags&ACK != 0 && got.Ack != want.Ack {
		differ("ack", want.Ack, got.Ack)
	}
	if want.HasWindow && got.Window != want.Window {
		differ("win", want.Window, got.Window)
	}
	if want.HasUrgent && got.Urgent != want.Urgent {
		differ("urg", want.Urgent, got.Urgent)
	}
	if want.HasECN && got.ECN != want.ECN {
		differ("ecn", want.ECN, got.ECN)
	}
	if !want.AnyOptions {
		if text := r.compareOptions(want.Options, got.Options); text != "" {
			list = append(list, text)
		}
	} else {
		r.pairStamps(got.Options)
	}
	if i := differs(got.Seq-1, got.Payload); i >= 0 && got.Flags&SYN == 0 {
		list = append(list, fmt.Sprintf("content: byte %d of the segment is %#x, expected %#x", i, got.Payload[i], Byte(got.Seq-1+uint32(i))))
	}
	return list
}

// compareOptions returns how the options of a segment differ from the expected ones; "" if they do not. Timestamps are compared relative to
// the first one.
func (r *player) compareOptions(want, got []Option) string {
	ok := len(want) == len(got)
	for i := 0; ok && i < len(want); i++ {
		w, g := want[i], got[i]
		switch {
		case w.Kind != g.Kind:
			ok = false
		case w.Kind == OptionTimestamps:
			ok = w.Ecr == g.Ecr && r.numbers.matchStamp(w.Val, g.Val, r.script.Tick > 0)
		default:
			ok = w.Value == g.Value && slices.Equal(w.Blocks, g.Blocks) && slices.Equal(w.Raw, g.Raw)
		}
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("options: expected %s, got %s", optionsString(want), optionsString(r.scriptStamps(got)))
}

// pairStamps takes the first timestamp of a segment whose options are not compared for the script's 0.
func (r *player) pairStamps(got []Option) {
	for _, o := range got {
		if o.Kind == OptionTimestamps && r.numbers.stampOf == nil {
			r.numbers.matchStamp(0, o.Val, false)
		}
	}
}

// scriptStamps returns the options with timestamps translated to the script's.
func (r *player) scriptStamps(list []Option) []Option {
	list = slices.Clone(list)
	for i := range list {
		if o := &list[i]; o.Kind == OptionTimestamps && r.numbers.stampOf != nil {
			o.Val = o.Val - r.numbers.baseLive + r.numbers.baseOf
		}
	}
	return list
}

// show formats a segment of the subject in the script's notation and numbers.
func (r *player) show(live Packet) string {
	p := r.numbers.outbound(live)
	p.Options = r.scriptStamps(p.Options)
	return format(p, len(p.Payload))
}

func (r *player) showInbound(s *Segment) string { return format(s.Packet, s.Length) }

// format formats a segment in the script's notation.
func format(p Packet, length int) string {
	var b strings.Builder
	if p.ECN != 0 {
		fmt.Fprintf(&b, "[%s] ", [...]string{"noecn", "ect1", "ect0", "ce"}[p.ECN&3])
	}
	fmt.Fprintf(&b, "%v %d:%d(%d)", p.Flags, p.Seq, p.Seq+uint32(length), length)
	if p.Flags&ACK != 0 {
		fmt.Fprintf(&b, " ack %d", p.Ack)
	}
	fmt.Fprintf(&b, " win %d", p.Window)
	if p.Urgent != 0 {
		fmt.Fprintf(&b, " urg %d", p.Urgent)
	}
	if len(p.Options) > 0 {
		b.WriteString(" " + optionsString(p.Options))
	}
	return b.String()
}
