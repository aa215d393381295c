// Package conf is the settings of an engine and the rules by which its sockets are offloaded: VMA's names and grammar, where they have a
// meaning here, and an explanation where they have none.
//
// # Settings
//
// Settings is a plain struct; start from Default, FromEnvironment, FromFile or WithProfile and change what differs:
//
//	s := conf.FromEnvironment()
//	s.Ring = conf.RingEpoll
//	engine, err := xtreme.New(s)
//
// The defaults come first, then the profile (VMA_SPEC), the file, the environment, and code: each has the last word over those before
// it. A value that cannot be used leaves what was there, an unknown name is ignored, and Settings.Warnings names both: a typing
// error never changes the behaviour silently, and never stops a program that ran before. What code sets out of range is an error of
// Validate.
//
// All of it comes from one table (Parameters): reading, checking, the lines that an engine prints when it starts (Settings.Lines), JSON
// (Settings.WriteJSON), docs/settings.md. A setting of VMA's that has no effect here is in it too, with the reason.
//
// # Rules
//
// A rule is a line: who carries the sockets, their role, an address and a port. The first one that fits decides.
//
//	use <os|vma|xlio|sx> <tcp_server|tcp_client|udp_receiver|udp_sender|udp_connect> <address[/bits]|*>:<port[-port]|*>[:<address>:<port>]
//	use os udp_receiver 239.1.1.0/24:7000-7099
//
// A second pair is for the other end, in the roles that know it.
//
// Rules is a rules file such as VMA's libvma.conf. ParseRules reads one: a mistake is a *RuleError with line and column, and then there
// are no rules. ParseRulesAsVMA reports what VMA would have kept. Rules.Match answers for a call, Rules.With adds rules and leaves the old ones
// as they were; Rules.WithAdded moves them over to a file that was read again. Package xtreme asks when a socket gets its ring, and has AddRule
// and Reload for a running program.
//
// Rules, Parameter and Log may be used by any goroutine; Settings is a value.
package conf
