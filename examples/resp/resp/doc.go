// Package resp is the redis protocol, apart from any I/O: a parser for what clients send, and a writer for what a server answers, in
// versions 2 and 3 (https://redis.io/docs/reference/protocol-spec).
//
// A client sends commands, as arrays of bulk strings
//
//	*2\r\n $3\r\n GET\r\n $3\r\n key\r\n
//
// or, typed by hand, as inline commands: words in one line, in quotes where needed. Commands may follow each other without waiting
// (pipelining), and any of them may arrive in as many parts as the network likes. Parser takes the bytes as they lie in the receive
// buffer and returns slices of them; nothing is copied and, but for inline commands with quotes, nothing is allocated.
//
// What a client can make the server hold is bounded (Limits). The sentences of the errors are redis's own.
package resp
