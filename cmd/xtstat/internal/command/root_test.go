package command

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// run is xtstat with arguments: what it prints, what it complains of, and its exit code.
func run(args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	code = Run(args, &o, &e)
	return o.String(), e.String(), code
}

func TestMistakesOnTheCommandLineNameThemselves(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--nonsense"}, "--nonsense"},
		{[]string{"nonsense"}, "nonsense"},
		{[]string{"version", "more"}, "more"},
		{[]string{"metrics", "--json"}, "json: "},
	} {
		out, errs, code := run(test.args...)
		require.Equal(t, exitUsage, code, "%v", test.args)
		require.Empty(t, out)
		require.Contains(t, errs, test.want)
	}
}

func TestVersionCommand(t *testing.T) {
	out, errs, code := run("version")
	require.Zero(t, code)
	require.Empty(t, errs)
	require.Regexp(t, `^xtstat .*, go1\.`, out)
}

// A time that cannot be read is named also where no process publishes anything.
func TestABadTimeIsNamedFirst(t *testing.T) {
	for _, view := range []string{"why", "events", "history"} {
		for _, bad := range [][2]string{{"--at", "yesterday"}, {"--window", "-2s"}} {
			_, errs, code := run(view, "-k", t.TempDir(), bad[0], bad[1])
			require.NotZero(t, code)
			require.Contains(t, errs, bad[1], view)
		}
	}
}
