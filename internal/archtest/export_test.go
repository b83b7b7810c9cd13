package archtest

// Long is the rule on functions, with the caller's exceptions.
var Long = long

// Sleeps is the rule on sleeping, with the caller's list.
var Sleeps = sleeps
