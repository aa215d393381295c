// Package conf reads the settings of an engine, and the rules that decide which of its sockets are offloaded. Programs give the result to
// xtreme.New. Names and grammar are VMA's; a setting of VMA's that means nothing here is accepted, with the reason why it has no effect.
//
// # Settings
//
// Settings is a plain struct; start from Default, FromEnvironment, FromFile or WithProfile and change what differs:
//
//	s := conf.FromEnvironment()
//	s.Ring = conf.RingEpoll
//	engine, err := xtreme.New(s)
//
// A setting may be given in several places. The later place in this order overrides the earlier ones:
//
//	1  the defaults (Default)
//	2  the profile (VMA_SPEC)
//	3  the settings file (SX_SETTINGS_FILE)
//	4  the environment
//	5  code that changes a field of Settings
//
// A value that cannot be used leaves the value from before, and an unknown name is ignored. Settings.Warnings names both, so that a typing
// error is seen and does not stop a program that ran before. A field that code sets out of range is an error of Validate, and of xtreme.New.
//
// One table has all settings, those without an effect too (Parameters). Reading and checking use it, and so do the lines that an engine
// prints when it starts (Settings.Lines), JSON (Settings.WriteJSON) and docs/settings.md.
//
// # Rules
//
// A rule is one line. It names a transport, a role, and the addresses and ports that it is for. The first rule that fits a socket decides;
// a socket that no rule fits is offloaded where it can be.
//
//	use TRANSPORT ROLE ADDRESS:PORT[:ADDRESS:PORT]
//	use os udp_receiver 239.1.1.0/24:7000-7099
//
//	TRANSPORT  os             the kernel carries the socket
//	           sx, vma, xlio  the socket is offloaded; where it cannot be, its path says that the rule is not met
//	           *              the socket is offloaded where it can be, as without a rule; it ends the search
//	ROLE       tcp_server, tcp_client, udp_receiver, udp_sender or udp_connect (see Role)
//	ADDRESS    an IPv4 address, a prefix such as 10.0.0.0/8, or * for all
//	PORT       a port, a range such as 7000-7099, or * for all
//
// The first address and port are those that the role is about, the second ones those of the other end. A call that has no second address
// is not compared with the second pair.
//
// Rules are the rules of a file such as VMA's libvma.conf. ParseRules reads one; a mistake is a *RuleError with line and column, and then
// there are no rules. ParseRulesAsVMA returns what VMA would have read. Rules.Match finds the rule for a socket. Rules.With returns a copy with
// more rules, Rules.WithAdded adds the same ones to a file that was read again. Package xtreme asks the rules when a socket gets its ring;
// its Engine.AddRule and Engine.Reload change them in a running program.
//
// # Log
//
// Settings.OpenLog makes the log that VMA_TRACELEVEL, VMA_LOG_FILE, VMA_LOG_DETAILS and VMA_LOG_COLORS describe, Settings.LogThrough one that
// writes through another logger. Both are loggers of package log/slog whose level changes at run time, and limit
// what is repeated, which LimitRepeats has any other do.
//
// Rules, Parameter and Log may be used by any goroutine; Settings is a value.
package conf
