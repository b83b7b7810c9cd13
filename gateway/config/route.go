package config

// routeOptions is one entry of routes.
type routeOptions struct {
	Match    matchPattern  `yaml:"match" default:"required" doc:"method and path: POST /orders/**; * is one segment, a final ** any rest; * as the method is every guarded one, and every one at all where the route has a signature or a rate"`
	Case     pathExactness `yaml:"case" default:"any" doc:"exact where the service tells /Votes from /votes; any refuses a path that is that of a guarded route but for its case"`
	Ext      pathExactness `yaml:"extension" default:"any" doc:"exact where /votes.json is not /votes to the service; any refuses a path that is that of a guarded route but for an extension, unless a route names it"`
	Settings settings      `yaml:",inline"`
}
