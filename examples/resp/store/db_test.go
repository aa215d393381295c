package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// at is a database at a time that the test moves.
func at(now *int64) *DB { return New(NewClock(func() int64 { return *now })) }

func add(db *DB, key string, expires int64) *Entry {
	e := db.GetOrAdd([]byte(key))
	e.SetValue([]byte(key + "'s value"))
	if expires > 0 {
		db.Expire(e, expires)
	}
	return e
}

// check holds the three places in which an entry stands against each other.
func check(t *testing.T, db *DB) {
	t.Helper()
	require.Len(t, db.keys, len(db.all))
	expiring := 0
	for i, e := range db.all {
		require.Equal(t, i, e.place)
		require.Same(t, e, db.keys[e.key])
		if e.expires > 0 {
			expiring++
			require.Same(t, e, db.dated[e.date])
		} else {
			require.Equal(t, -1, e.date)
		}
	}
	require.Len(t, db.dated, expiring)
	for i := 1; i < len(db.dated); i++ {
		require.LessOrEqual(t, db.dated[(i-1)/2].expires, db.dated[i].expires)
	}
}

func TestAnExpiredKeyIsGoneForWhoLooks(t *testing.T) {
	now := int64(1000)
	db := at(&now)
	add(db, "a", 1500)
	add(db, "b", 0)
	require.NotNil(t, db.Get([]byte("a")))
	now = 1501
	require.NotNil(t, db.Get([]byte("a")), "the time of a batch stands still")
	db.clock.Forget()
	require.Nil(t, db.Get([]byte("a")))
	require.NotNil(t, db.Get([]byte("b")))
	require.EqualValues(t, 1, db.Gone)
	require.Equal(t, 1, db.Len())
	check(t, db)
	require.False(t, db.Delete([]byte("a")))
	require.True(t, db.Delete([]byte("b")))
	require.Nil(t, db.Random())
}

func TestSweepTakesTheOldestAndNotTooMany(t *testing.T) {
	now := int64(1000)
	db := at(&now)
	for i := range 100 {
		add(db, fmt.Sprint("k", i), int64(2000+(i*37)%100))
	}
	add(db, "stays", 0)
	require.Zero(t, db.Sweep(1000))
	now = 2050
	db.clock.Forget()
	require.Equal(t, 20, db.Sweep(20))
	require.Equal(t, 30, db.Sweep(1000), "those of 2020 to 2049")
	require.Zero(t, db.Sweep(1000))
	require.Equal(t, 51, db.Len())
	require.Equal(t, 50, db.Dated())
	check(t, db)
}

func TestPersistAndExpireAgain(t *testing.T) {
	now := int64(1000)
	db := at(&now)
	e := add(db, "a", 1500)
	require.True(t, db.Persist(e))
	require.False(t, db.Persist(e))
	db.Expire(e, 9000)
	db.Expire(e, 1200)
	require.EqualValues(t, 1200, e.Expires())
	check(t, db)
}

func TestRenameReplacesAndKeepsTheTime(t *testing.T) {
	now := int64(1000)
	db := at(&now)
	a := add(db, "a", 1500)
	add(db, "b", 1400)
	db.Rename(a, []byte("a"))
	db.Rename(a, []byte("b"))
	require.Nil(t, db.Get([]byte("a")))
	require.Equal(t, "a's value", string(db.Get([]byte("b")).Value))
	require.EqualValues(t, 1500, db.Get([]byte("b")).Expires())
	require.Equal(t, 1, db.Len())
	check(t, db)
}

// Whatever comes and goes during a scan, what was there all the time is seen.
func TestScanMissesNothingThatStays(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		now := int64(1000)
		db := at(&now)
		for i := range 300 {
			add(db, fmt.Sprint("k", i), 0)
		}
		stays := func(k string) bool { return strings.HasSuffix(k, "7") }
		seen := map[string]bool{}
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			cursor = db.Scan(cursor, 1+r.IntN(20), func(e *Entry) { seen[e.Key()] = true })
			for range r.IntN(20) {
				if e := db.Random(); e != nil && !stays(e.Key()) {
					db.Delete([]byte(e.Key()))
				}
				if r.IntN(3) == 0 {
					add(db, fmt.Sprint("new", r.IntN(1000)), 0)
				}
			}
		}
		for i := 7; i < 300; i += 10 {
			require.True(t, seen[fmt.Sprint("k", i)], "seed %d misses k%d", seed, i)
		}
		check(t, db)
	}
}

func TestScanSkipsTheExpiredAndEnds(t *testing.T) {
	now := int64(1000)
	db := at(&now)
	require.Zero(t, db.Scan(0, 10, func(*Entry) { t.Fatal("there is none") }))
	require.Zero(t, db.Scan(1<<63, 10, func(*Entry) { t.Fatal("there is none") }))
	add(db, "a", 1500)
	add(db, "b", 0)
	now = 3000
	db.clock.Forget()
	var seen []string
	require.EqualValues(t, 1, db.Scan(0, 1, func(e *Entry) { seen = append(seen, e.Key()) }))
	require.Zero(t, db.Scan(1, 1, func(e *Entry) { seen = append(seen, e.Key()) }))
	require.Equal(t, []string{"b"}, seen)
}

func TestALargeValueDoesNotKeepItsMemory(t *testing.T) {
	now := int64(1)
	e := at(&now).GetOrAdd([]byte("a"))
	e.SetValue(make([]byte, 1<<20))
	e.SetValue(make([]byte, 1<<20-1))
	require.GreaterOrEqual(t, cap(e.Value), 1<<20)
	e.SetValue([]byte("small"))
	require.Less(t, cap(e.Value), 1<<10)
}

// Random steps against a map of our own.
func TestAgainstAModel(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		now := int64(1000)
		db := at(&now)
		type value struct {
			v       string
			expires int64
		}
		model := map[string]value{}
		for range 2000 {
			now += int64(r.IntN(3))
			db.clock.Forget()
			for k, v := range model {
				if v.expires > 0 && now > v.expires {
					delete(model, k)
				}
			}
			k := fmt.Sprint(r.IntN(40))
			key := []byte(k)
			switch r.IntN(6) {
			case 0:
				v := fmt.Sprint(r.Uint64())
				e := db.GetOrAdd(key)
				e.SetValue([]byte(v))
				db.Persist(e)
				model[k] = value{v: v}
			case 1:
				if e := db.Get(key); e != nil {
					db.Expire(e, now+int64(r.IntN(50)))
					model[k] = value{model[k].v, e.expires}
				}
			case 2:
				_, had := model[k]
				delete(model, k)
				require.Equal(t, had, db.Delete(key))
			case 3:
				if e := db.Get(key); e != nil {
					to := fmt.Sprint(r.IntN(40))
					v := model[k]
					delete(model, k)
					model[to] = v
					db.Rename(e, []byte(to))
				}
			case 4:
				db.Sweep(r.IntN(3))
			default:
				e := db.Look(key)
				want, has := model[k]
				require.Equal(t, has, e != nil, "seed %d key %s", seed, k)
				if has {
					require.Equal(t, want.v, string(e.Value))
				}
			}
		}
		check(t, db)
		db.Sweep(1000)
		require.Equal(t, len(model), db.Len())
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "b", false}, {"*", "anything", true},
		{"h?llo", "hello", true}, {"h?llo", "hllo", false}, {"h*llo", "heeello", true}, {"h*llo", "hell", false},
		{"h[ae]llo", "hallo", true}, {"h[ae]llo", "hillo", false}, {"h[^e]llo", "hallo", true}, {"h[^e]llo", "hello", false},
		{"h[a-c]llo", "hbllo", true}, {"h[c-a]llo", "hbllo", true}, {"h[a-c]llo", "hdllo", false}, {`h\*llo`, "h*llo", true},
		{`h\*llo`, "hallo", false}, {`[\]]`, "]", true}, {`[a\-z]`, "-", true}, {`[a\-z]`, "b", false}, {"[a", "a", true},
		{"[abc", "d", false}, {"a*b*c", "axxbyyc", true}, {"a*b*c", "axxbyy", false}, {"**a**", "bab", true}, {"?", "", false},
		{`\`, `\`, true}, {"*a", "aaab", false}, {"*ab", "aaab", true}, {"[^a]", "", false},
	} {
		require.Equal(t, c.want, Match(c.pattern, c.s), "%q with %q", c.pattern, c.s)
	}
}

// The pattern that takes a recursive matcher longer than the sun has left.
func TestMatchDoesNotExplode(t *testing.T) {
	require.False(t, Match(strings.Repeat("a*", 50)+"b", strings.Repeat("a", 5000)))
}

func TestGetAllocatesNothing(t *testing.T) {
	now := int64(1000)
	db := at(&now)
	add(db, "a", 5000)
	key := []byte("a")
	require.Zero(t, testing.AllocsPerRun(100, func() { db.Get(key) }))
}
