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
// it. A value that cannot be used leaves what was there, a name that there is not changes nothing, and Settings.Warnings names both: a
// typing
// error never changes the behaviour silently, and never stops a program that ran before. What code sets out of range is an error of
// Validate.
//
// All of it comes from one table (Parameters): reading, checking, the lines that an engine prints when it starts (Settings.Lines), JSON
// (Settings.WriteJSON), docs/settings.md. A setting of VMA's that has nothing to change here is in it too, with the reason.
//
// # Rules
//
// Rules is a rules file such as VMA's libvma.conf. ParseRules reads one: a mistake is a *RuleError with line and column, and then there
// are no rules. ParseRulesAsVMA reports what VMA would have kept. Rules.Match answers for a call, Rules.With adds rules and leaves the old ones
// as they were; Rules.WithAdded moves them over to a file that was read again. Package xtreme asks when a socket gets its ring, and has AddRule
// and Reload for a running program.
//
// Rules, Parameter and Log may be used by any goroutine; Settings is a value.
package conf
