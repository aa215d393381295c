package feed

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormatErrorNamesTheInput(t *testing.T) {
	reason := errors.New("itch: message shorter than its type")
	err := error(&FormatError{Reason: reason, Type: 'A', Offset: 0, Have: 35, Want: 36})
	require.EqualError(t, err, "itch: message shorter than its type: type 65 (0x41, 'A') at byte 0: have 35, want 36")
	require.ErrorIs(t, err, reason)
	err = &FormatError{Reason: reason, Type: NoType, Offset: 12, Have: 3, Want: 10}
	require.EqualError(t, err, "itch: message shorter than its type: at byte 12: have 3, want 10")
	require.Equal(t, "0 (0x00)", TypeName(0))
	require.Equal(t, "300 (0x12c)", TypeName(300))
}

func TestSymbol(t *testing.T) {
	for _, s := range []string{"", "A", "AAPL", "LONGNAME"} {
		require.Equal(t, s, SymbolOf(s).String())
	}
	require.Equal(t, "LONGNAME", SymbolOf("LONGNAMES").String())
	require.Equal(t, SymbolOf("A"), SymbolOf("A  "))
	require.Equal(t, Symbol('Z')|'V'<<8|0x2020_2020_2020<<16, SymbolOf("ZV"))
	require.Equal(t, "A", Symbol('A').String(), "zeros are padding too")
}
