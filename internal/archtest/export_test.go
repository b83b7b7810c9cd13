package archtest

// Sleeps is the rule on sleeping with a list of its own.
var Sleeps = sleeps
