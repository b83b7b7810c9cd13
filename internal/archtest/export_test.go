package archtest

// Sleeps is the rule on sleeping, with the caller's list.
var Sleeps = findSleeps
