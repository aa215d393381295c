package handler

import "net/netip"

var feedLines = []netip.AddrPort{netip.MustParseAddrPort("239.1.1.1:1"), netip.MustParseAddrPort("239.1.1.2:2")}
