// Package rangestest says what a source of ranges (idgen.Ranges) must do, and finds out whether one
// does: [Run] it in a test of the source, on the real server.
//
//	R1  each value is given once, however many processes take at once
//	R2  a range has as many values as were asked for, or more, and later ones are above
//	R3  a tag that nobody has made is refused, and is not made by the call
//	R4  tags have counters of their own, and their names are bytes: none is cut, folded or trimmed
//	R5  a call whose context has ended gives nothing
//	R6  a tag ends below 2^63, and does not begin anew there
//	R7  a tag that is made again goes on where it was
package rangestest
