package simnet

import (
	"math/bits"
	"math/rand/v2"
)

// Rand is the stream of random numbers with this name, from its beginning. Streams of different names are independent, so that one
// more host or line does not move what the others draw. The world itself uses names that begin with "host ", "line " and "switch ".
func (w *World) Rand(name string) *rand.Rand { return randomStream(w.seed, name) }

// randomStream returns the stream of random numbers with a name, for a seed.
func randomStream(seed uint64, name string) *rand.Rand {
	h := uint64(offset)
	for i := range len(name) {
		h = mix(h, uint64(name[i]))
	}
	return rand.New(rand.NewPCG(splitmix(seed), h))
}

// splitmix is Steele, Lea and Flood's generator as a function of its state.
func splitmix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

const (
	offset = 0x2d358dccaa6c78a5
	factor = 0x9e3779b97f4a7c15
)

// mix adds a word to a hash: the folded product of wyhash. It detects accidental differences, not deliberate ones.
func mix(h, x uint64) uint64 {
	hi, lo := bits.Mul64(h^x, factor)
	return bits.RotateLeft64(h, 23) ^ hi ^ lo
}
