// Command api records the exported API of all published modules, one declaration a line, in
// directory api of the repository.
//
// A file v*.txt has what a release added, and is never changed again. next.txt has what will be in
// the next one. removed.txt has what a release had and the tree has not any more: each line needs
// one in CHANGELOG.md. A test compares the tree with these files.
//
//	go run ./scripts/api          says in what the tree differs from the files
//	go run ./scripts/api -write   writes next.txt and removed.txt
package main
