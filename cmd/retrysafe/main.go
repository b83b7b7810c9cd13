// Command retrysafe runs the gateway, looks into stores and shows how
// repeated work is kept from taking effect twice.
package main

func main() {}
