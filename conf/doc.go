// Package conf is the settings of an engine: defaults, the environment's VMA_ names where they have a meaning here, and code.
//
// Settings is a plain struct; start from Default or FromEnvironment and change what differs:
//
//	s := conf.FromEnvironment()
//	s.Ring = conf.RingEpoll
//	engine, err := xtreme.New(s)
//
// A value in the environment that cannot be used is left at its default, and Settings.Warnings names it: a typing error never
// changes the behaviour silently, and never stops a program that ran before.
package conf
