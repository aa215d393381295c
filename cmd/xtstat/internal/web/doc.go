// Package web is the screen of xtstat web: it serves what package live has of a process to a browser, with a page that draws it. Command xtstat
// runs it.
//
//	/            the page; with /page.js, /page.css and /icon.svg it is all there is: the browser asks no other server
//	/updates     server-sent events: the Model as JSON, whenever it was updated
//	/socket      one socket, as view 3 shows it
//
// The page can only look: methods other than GET and HEAD are refused. A page of another site reads nothing: requests must name a loopback
// address or localhost as their host, so that a name which a site has moved to a loopback address (DNS rebinding) is refused.
package web
