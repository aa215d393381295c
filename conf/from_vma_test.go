package conf

import (
	"encoding/csv"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root         = ".."
	fromVMA      = "../docs/from-vma.md"
	status       = "../docs/status.md"
	vmaNames     = "testdata/vma-names.csv" // kind and name of all that VMA and XLIO have
	wordsToExact = "works,better"
	wordsWithWhy = "partly,hardware-only,not applicable"
)

// row is one line of the page.
type row struct{ word, why, rings, remarks string }

// rowsOf reads the page's tables by kind and name.
func rowsOf(t *testing.T) map[[2]string]row {
	t.Helper()
	text, err := os.ReadFile(fromVMA)
	require.NoError(t, err)
	rows := map[[2]string]row{}
	kind := ""
	bar := regexp.MustCompile(`[^\\]\|`) // not one that is part of the text
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		var cells []string
		for rest := line[1:]; ; {
			at := bar.FindStringIndex(rest)
			if at == nil {
				break
			}
			cells = append(cells, strings.ReplaceAll(strings.TrimSpace(rest[:at[0]+1]), `\|`, "|"))
			rest = rest[at[1]:]
		}
		require.Len(t, cells, 4, line)
		if !strings.HasPrefix(cells[0], "`") {
			kind = cells[0]
			continue
		}
		key := [2]string{kind, strings.Trim(cells[0], "`")}
		require.NotContains(t, rows, key, "twice")
		word, why, _ := strings.Cut(cells[1], ": ")
		rows[key] = row{word, why, cells[2], cells[3]}
	}
	return rows
}

// testsOfTheTree are all test functions of the repository, each with the text of its package's tests and of the suite that they call.
func testsOfTheTree(t *testing.T) map[string]string {
	t.Helper()
	texts, folders := map[string]string{}, map[string][]string{} // of folders; where a test is
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "/ringtest/") {
			return err
		}
		source, err := os.ReadFile(path)
		folder := filepath.Dir(path)
		for _, m := range function.FindAllSubmatch(source, -1) {
			folders[string(m[1])] = append(folders[string(m[1])], folder)
		}
		texts[folder] += string(source)
		return err
	}))
	tests := map[string]string{}
	for name, list := range folders {
		for _, folder := range list {
			tests[name] += texts[folder]
		}
		if strings.Contains(tests[name], "ringtest.") {
			tests[name] += texts["../ring/ringtest"]
		}
	}
	require.Greater(t, len(tests), 300, "the walk found too little to mean anything")
	return tests
}

// notYet is what the page of the status has as open.
func notYet(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(status)
	require.NoError(t, err)
	_, open, found := strings.Cut(string(text), "\n## Not yet\n")
	require.True(t, found)
	open, _, found = strings.Cut(open, "\n## ")
	require.True(t, found)
	return open
}

// claim is what a row says: on which kinds of ring it works, and which tests show it.
type claim struct {
	row          [2]string
	rings, tests []string
	marks        []string // of tests: on which rings, where that is not on all of rings
}

// testsOnRings are the kinds of ring on which each test that the page names has passed, from testdata, or from what CI's run wrote to the file
// that SOCKETXTREME_TEST_RINGS names (.ci/testlog): then -update writes testdata anew.
func testsOnRings(t *testing.T, named []string) map[string][]string {
	t.Helper()
	const record = "testdata/test-rings.txt"
	path := os.Getenv("SOCKETXTREME_TEST_RINGS")
	fresh := path != ""
	if !fresh {
		path = record
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	ran := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		name, kinds, _ := strings.Cut(line, "\t")
		ran[name] = strings.Fields(kinds)
	}
	if !fresh {
		return ran
	}
	found := map[string][]string{}
	var b strings.Builder
	slices.Sort(named)
	for _, name := range slices.Compact(named) {
		kinds, some := ringsOf(ran, name)
		if some {
			found[name] = kinds
			fmt.Fprintf(&b, "%s\t%s\n", name, strings.Join(kinds, " "))
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(record, []byte(b.String()), 0o644))
	}
	return found
}

// ringsOf are the kinds of ring that a test, or a case of it as the page writes it, "Test (case)", has passed on.
func ringsOf(ran map[string][]string, name string) (kinds []string, some bool) {
	test, part, _ := strings.Cut(strings.TrimSuffix(name, ")"), " (")
	part = strings.ReplaceAll(part, " ", "_") // as package testing writes it
	tops := []string{test}
	if test == "TestContract" { // the suite's name on kernel rings; on offloaded ones it runs over several kinds of links
		tops = append(tops, "TestContractOverMemory")
	}
	for sub, on := range ran {
		top, rest, _ := strings.Cut(sub, "/")
		if slices.Contains(tops, top) && (part == "" || strings.Contains("/"+rest+"/", "/"+part+"/")) {
			kinds, some = append(kinds, on...), true
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), some
}

// notOfRings are the settings with an effect whose rows claim no ring: their effect is on the settings and on the form of the log.
var notOfRings = []string{"VMA_LOG_COLORS", "VMA_LOG_DETAILS", "VMA_TRACELEVEL", "VMA_SPEC", "VMA_SELECT_POLL_OS_FORCE"}

// checkRings holds the rings that the row of a setting claims against the code's, and those of another name of it against the setting's own row.
func checkRings(t *testing.T, p *Parameter, name string, claimed []string, own row) {
	t.Helper()
	if name != p.Name {
		require.Equal(t, own.rings, strings.Join(claimed, ", "), "%s: %s claims other rings", name, p.Name)
	}
	if p.Field == "" || p.State == HardwareOnly {
		return
	}
	var rings []string
	for _, kind := range p.Rings {
		rings = append(rings, string(kind))
	}
	switch {
	case len(rings) > 0:
		require.ElementsMatch(t, rings, claimed, "%s: the code has other rings", name)
	case !slices.Contains(notOfRings, p.Name):
		require.NotEqual(t, []string{"–"}, claimed, "%s: it has an effect on rings", name)
	}
}

// The page has a row for each line of the list and no other, in the words that it explains; what works names a test that there is.
// The page of the status has none of it as open. Each test that a row names has passed on each kind of ring that the row claims, or the row says
// behind the test on which, so that of a row with two claims it shows where each holds; on each ring one of its tests has passed. A test that is
// skipped shows nothing. Rows of settings claim the rings that the code has.
func TestFromVMA(t *testing.T) {
	file, err := os.Open(vmaNames)
	require.NoError(t, err)
	defer file.Close()
	list, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	open := notYet(t)
	rows := rowsOf(t)
	whole := maps.Clone(rows)
	tests := testsOfTheTree(t)
	aliases := map[string]bool{} // that TestNamesOfXLIOAndOldOnes reads
	for _, c := range every {
		for _, name := range byName[c.name].names()[1:] {
			aliases[name] = true
		}
	}
	exact, withWhy := strings.Split(wordsToExact, ","), strings.Split(wordsWithWhy, ",")
	counts := map[string]int{}
	var claims []claim
	var shown []string // all tests that rows name
	for _, l := range list[1:] {
		key := [2]string{l[0], l[1]}
		r, ok := rows[key]
		require.True(t, ok, "no row for %v", key)
		delete(rows, key)
		counts[r.word]++
		switch {
		case slices.Contains(exact, r.word):
			require.Empty(t, r.why, "%v: %s needs no reason", key, r.word)
		case slices.Contains(withWhy, r.word):
			require.NotEmpty(t, r.why, "%v: %s needs a reason", key, r.word)
		default:
			t.Errorf("%v: %q is none of the words", key, r.word)
		}
		list := namedTest.FindAllStringSubmatch(r.why+" "+r.remarks, -1)
		claim := claim{row: key}
		if r.word == "works" || r.word == "better" || r.word == "partly" {
			require.NotEmpty(t, list, "%v: %s names no test", key, r.word)
			require.NotEmpty(t, r.rings, "%v: on which rings? – for what is not about rings", key)
			if r.rings != "–" {
				claim.rings = strings.Split(r.rings, ", ")
			}
			for _, kind := range claim.rings {
				require.Contains(t, []string{"uring", "epoll", "offload"}, kind, "%v", key)
			}
		} else {
			require.Empty(t, r.rings, "%v: %s is on no ring", key, r.word)
		}
		for _, m := range list {
			name := m[1]
			if m[2] != "" {
				name += " (" + m[2] + ")"
			}
			claim.tests, claim.marks, shown = append(claim.tests, name), append(claim.marks, m[3]), append(shown, name)
			text, ok := tests[m[1]]
			require.True(t, ok, "%v: there is no test %s", key, m[1])
			if m[2] != "" {
				found := strings.Contains(text, `"`+m[2]+`"`) || strings.Contains(text, `"`+m[2]+`/`)
				require.True(t, found, "%v: %s has no case %q", key, m[1], m[2])
			}
			if m[1] == "TestNamesOfXLIOAndOldOnes" {
				require.True(t, aliases[l[1]], "%s does not read %s", m[1], l[1])
			}
		}
		claims = append(claims, claim)
		require.NotContains(t, open, "`"+l[1]+"`", "%s has as open what the row for %v has not", status, key)
		if l[0] == "setting" {
			p := byName[l[1]]
			require.NotNil(t, p, "%s: the code does not know it", l[1])
			require.Equal(t, string(p.State), r.word, l[1])
			checkRings(t, p, l[1], strings.Split(r.rings, ", "), whole[[2]string{"setting", p.Name}])
		}
	}
	require.Empty(t, rows, "rows that the list does not have")
	t.Log(counts)

	on := testsOnRings(t, shown)
	if *update {
		markRings(t, on)
		return
	}
	for _, c := range claims {
		var kinds []string
		for i, name := range c.tests {
			require.Contains(t, on, name, "%v names a test that has not passed", c.row)
			kinds = append(kinds, on[name]...)
			require.Equal(t, markOf(on[name], c.rings), c.marks[i], "%v: the mark of %s; go test ./conf -run TestFromVMA -update", c.row, name)
		}
		for _, kind := range c.rings {
			require.Contains(t, kinds, kind, "%v claims to work on %s, where none of its tests has passed: %v", c.row, kind, c.tests)
		}
	}
}

// namedTest finds the tests that a row names: a test, which case of it, or which group of cases (their names begin with it and a slash), and the
// mark of its rings.
var namedTest = regexp.MustCompile("`(Test\\w+)`(?: \\(((?:[^()]|\\([^()]*\\))+)\\))?(?: \\[([a-z, –]+)\\])?")

// markOf is how a row that claims some rings marks a test which has passed on some: not, if all that are claimed are among those; else with
// the claimed ones that are, or with all of them where it shows the bounds of the claim; – is a test that is not about rings.
func markOf(passed, claimed []string) string {
	var mark []string
	for _, kind := range claimed {
		if slices.Contains(passed, kind) {
			mark = append(mark, kind)
		}
	}
	switch {
	case len(mark) == len(claimed):
		return ""
	case len(mark) > 0:
		return strings.Join(mark, ", ")
	case len(passed) > 0:
		return strings.Join(passed, ", ")
	}
	return "–"
}

// markRings writes the marks of all tests into the page.
func markRings(t *testing.T, on map[string][]string) {
	t.Helper()
	text, err := os.ReadFile(fromVMA)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		// Name, word, rings, remarks: the mark of the bar that is part of a text has no space before it.
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 4 || cells[2] == "" {
			continue
		}
		var claimed []string
		if cells[2] != "–" {
			claimed = strings.Split(cells[2], ", ")
		}
		lines[i] = namedTest.ReplaceAllStringFunc(line, func(text string) string {
			m := namedTest.FindStringSubmatch(text)
			name, written := m[1], "`"+m[1]+"`"
			if m[2] != "" {
				name, written = name+" ("+strings.ReplaceAll(m[2], `\|`, "|")+")", written+" ("+m[2]+")"
			}
			if mark := markOf(on[name], claimed); mark != "" {
				written += " [" + mark + "]"
			}
			return written
		})
	}
	require.NoError(t, os.WriteFile(fromVMA, []byte(strings.Join(lines, "\n")), 0o644))
}
