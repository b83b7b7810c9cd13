// Command diagrams draws docs/diagrams/*.svg from the text files beside them: go run
// ./scripts/diagrams. A test fails if a picture is not the one that its text makes.
//
// The first lines of a text are fields:
//
//	title: The lost answer
//	desc: A client retries a payment whose answer was lost.
//	actors: client, gateway, service
//
// A text with actors is a sequence, from top to bottom:
//
//	client -> gateway: POST /payments, key 17    a message
//	gateway --> client: 201                      an answer
//	gateway --x client: 201                      an answer that is lost
//	service: charges $5                          a note on one actor
//	crash gateway: kill -9                       its line ends here
//	start gateway: new process                   and goes on here
//	== the client times out ==                   a divider
//
// A text with a size ("size: 720x400") is a graph of boxes at fixed places:
//
//	box doubt 280,300 160x56 bad: in doubt | the outcome is unknown
//	doubt.left -> released.right: an operator: not done
//	done.top -> none.top via 600,30 90,30: the retention ends
//
// The colour of a box is plain, good, bad or busy. An anchor is left, right, top or bottom, with an
// optional place on that side in percent (doubt.top:25). A bar ("|") breaks a line.
package main
