package ring

import "github.com/socketxtreme/socketxtreme/buffers"

// SetLargeStream makes a connection receive into large buffers from now on, or into small ones again; Config.LargeStream is what it
// begins with. What is under way still comes in the buffers it was received into, in order. It is worth it for a connection that turns
// out to bring much at a time.
// A pool without buffers of that class is an error. Owner only.
func (s *Socket) SetLargeStream(on bool) error {
	if err := s.usable("set large stream"); err != nil {
		return err
	}
	if s.handle.Kind != KindStream {
		return stateError("set large stream", s)
	}
	class, count := buffers.Small, s.ring().pool.Layout().SmallCount
	if on {
		class, count = buffers.Large, s.ring().pool.Layout().LargeCount
	}
	if count == 0 {
		return badArgument("set large stream", "class without buffers", class)
	}
	if class == s.handle.Class {
		return nil
	}
	s.handle.Class = class
	if s.state != stateOpen || s.stops != 0 {
		return nil // reading begins with it
	}
	for _, reading := range [...]bool{false, true} {
		if err := s.ring().drv.Receive(s, reading); err != nil {
			return &OpError{Op: "set large stream", Err: err}
		}
	}
	return nil
}
