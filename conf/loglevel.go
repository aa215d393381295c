package conf

import "log/slog"

// Level is the least of package slog's levels that is written at the level l: LogLevel is a slog.Leveler. A line of LogFine, say, is logged at
// LogFine.Level().
func (l LogLevel) Level() slog.Level { return slogLevels[l] }
