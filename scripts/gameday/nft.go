package main

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Messages of nf_tables (linux/netfilter/nf_tables.h): the machine need not have nft.
const (
	nftNewTable, nftDelTable, nftNewChain, nftNewRule = 0, 2, 3, 6

	nftTable = "gameday"

	nfDrop = 0 // the verdict NF_DROP
)

// dropUDP makes the rule "meta l4proto udp drop" for what comes in to this host, in the calling thread's network namespace.
func dropUDP() error {
	const create = unix.NLM_F_CREATE | unix.NLM_F_ACK
	value := func(typ int, v string) []byte { return nested(typ, attribute(1, v)) } // NFTA_DATA_VALUE
	expression := func(name string, list ...[]byte) []byte {
		return nested(1, attribute(1, name+"\x00"), nested(2, list...))
	}
	return nftables(
		nftMessage(nftNewTable, create, attribute(1, nftTable+"\x00")),
		nftMessage(nftNewChain, create, attribute(1, nftTable+"\x00"), attribute(3, "in\x00"),
			nested(4, attribute(1, big(unix.NF_INET_LOCAL_IN)), attribute(2, big(0))), attribute(7, "filter\x00")),
		nftMessage(nftNewRule, create|unix.NLM_F_APPEND, attribute(1, nftTable+"\x00"), attribute(2, "in\x00"), nested(4,
			expression("meta", attribute(1, big(1)), attribute(2, big(16))), // register 1 = NFT_META_L4PROTO
			expression("cmp", attribute(1, big(1)), attribute(2, big(0)), value(3, string([]byte{unix.IPPROTO_UDP}))),
			expression("immediate", attribute(1, big(0)), nested(2, nested(2, attribute(1, big(nfDrop)))))))) // the verdict's register
}

// dropNothing removes the rule.
func dropNothing() error {
	return nftables(nftMessage(nftDelTable, unix.NLM_F_ACK, attribute(1, nftTable+"\x00")))
}

func big(v uint32) string { return string(binary.BigEndian.AppendUint32(nil, v)) }

func attribute(typ int, v string) []byte { return nl.NewRtAttr(typ, []byte(v)).Serialize() }

func nested(typ int, list ...[]byte) []byte {
	var all []byte
	for _, a := range list {
		all = append(all, a...)
	}
	return nl.NewRtAttr(typ|unix.NLA_F_NESTED, all).Serialize()
}

// nftMessage is a message of nf_tables for IPv4.
func nftMessage(typ, flags uint16, attributes ...[]byte) []byte {
	return nfnlMessage(unix.NFNL_SUBSYS_NFTABLES<<8|typ, flags, unix.AF_INET, 0, attributes...)
}

// nfnlMessage is a message with struct nfgenmsg behind its header.
func nfnlMessage(typ, flags uint16, family byte, resource uint16, attributes ...[]byte) []byte {
	b := make([]byte, 20)
	binary.NativeEndian.PutUint16(b[4:], typ)
	binary.NativeEndian.PutUint16(b[6:], flags|unix.NLM_F_REQUEST)
	b[16] = family
	binary.BigEndian.PutUint16(b[18:], resource)
	for _, a := range attributes {
		b = append(b, a...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	return b
}

// nftables sends messages as one batch, and waits for the kernel's answers.
func nftables(messages ...[]byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("nf_tables: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return err
	}
	batch := nfnlMessage(unix.NFNL_MSG_BATCH_BEGIN, 0, 0, unix.NFNL_SUBSYS_NFTABLES)
	for _, m := range messages {
		batch = append(batch, m...)
	}
	batch = append(batch, nfnlMessage(unix.NFNL_MSG_BATCH_END, 0, 0, unix.NFNL_SUBSYS_NFTABLES)...)
	if err := unix.Sendto(fd, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("nf_tables: %w", err)
	}
	b := make([]byte, 8192)
	for acks := 0; acks < len(messages); {
		n, err := unix.Read(fd, b)
		if err != nil {
			return fmt.Errorf("nf_tables: %w", err)
		}
		for m := b[:n]; len(m) >= 20; acks++ {
			if e := unix.Errno(-int32(binary.NativeEndian.Uint32(m[16:]))); e != 0 {
				return fmt.Errorf("nf_tables: message %d: %w", acks, e)
			}
			m = m[min((binary.NativeEndian.Uint32(m)+3)&^3, uint32(len(m))):]
		}
	}
	return nil
}
