// Package rangestest specifies what a source of ranges (idgen.Ranges) must do, and tests it. Call
// [Run] in a test of the source, on the real server.
//
//	R1  each value is assigned once, however many processes take ranges at once
//	R2  a range has at least as many values as were asked for, and later ranges are above it
//	R3  a tag that does not exist is refused, and the call does not create it
//	R4  tags have counters of their own, and their names are bytes: none is cut, folded or trimmed
//	R5  a call whose context has ended assigns nothing
//	R6  a tag ends below 2^63, and does not start again there
//	R7  a tag that is created again continues where it was
package rangestest
