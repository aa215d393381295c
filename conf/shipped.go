package conf

import _ "embed" // of the rules

// ShippedRules is the rules file that holds where /etc/libvma.conf does not exist: name resolution by connected UDP sockets is the
// kernel's.
//
//go:embed libvma.conf
var ShippedRules string
