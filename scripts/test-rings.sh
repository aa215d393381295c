#!/usr/bin/env bash
# Runs the tests that docs/from-vma.md names, notes on which kinds of ring each has passed, in conf/testdata/test-rings.txt, and writes the marks of
# the page ("`TestA` [offload]") by that: for rows that are new or changed. CI looks at its own run. Root, a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
names=$(grep -o '`Test[A-Za-z0-9]*`' docs/from-vma.md | tr -d '`' | grep -v "^TestFromVMA$" | sort -u)
pattern="^($(paste -sd'|' <<<"$names")|TestContractOverMemory)\$"
packages=$(grep -rlE "^func ($(paste -sd'|' <<<"$names"))\(t \*testing\.T\)" --include=*_test.go . | xargs -n1 dirname | sort -u)
rings=$(mktemp)
trap 'rm -f "$rings"' EXIT
# shellcheck disable=SC2086
go test -json -timeout 10m -run "$pattern" $packages | go run ./.ci/testlog -rings "$rings"
SOCKETXTREME_TEST_RINGS=$rings go test ./conf -count=1 -run '^TestFromVMA$' -update
