package simnet

// Shrink finds a short list that still fails, by leaving out parts of a long one: Zeller and Hildebrandt's ddmin (IEEE TSE 28(2),
// 2002). It calls fails at most limit times, and each time with a list that keeps the order. The result fails, if list did.
func Shrink[T any](list []T, fails func([]T) bool, limit int) []T {
	parts := 2
	for len(list) > 1 && limit > 0 {
		size := (len(list) + parts - 1) / parts
		found := false
		for from := 0; from < len(list) && limit > 0; from += size {
			rest := make([]T, 0, len(list))
			rest = append(append(rest, list[:from]...), list[min(from+size, len(list)):]...)
			limit--
			if len(rest) > 0 && fails(rest) {
				list, parts, found = rest, max(parts-1, 2), true
				break
			}
		}
		if found {
			continue
		}
		if size == 1 {
			break
		}
		parts = min(2*parts, len(list))
	}
	return list
}
