package admin

// RouteNames returns the method and the path of each route.
func RouteNames() (names []string) {
	for i := range routes {
		names = append(names, routes[i].method+" "+routes[i].path)
	}
	return names
}
