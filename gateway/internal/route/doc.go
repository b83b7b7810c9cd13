// Package route finds the route of a request by its method and its path. A path that some services
// read as that of another route has none: it could bypass what that route requires.
package route
