package main

const nginxHead = `$USER$
load_module /usr/share/nginx/modules/ndk_http_module.so;
load_module /usr/share/nginx/modules/ngx_http_lua_module.so;
worker_processes $WORKERS$;
pid $DIR$/nginx.pid;
error_log $DIR$/error.log warn;
worker_rlimit_nofile 20000;
events { worker_connections $CONNECTIONS$; }
`

const tempPaths = `
  client_body_temp_path $DIR$/tmp; proxy_temp_path $DIR$/tmp; fastcgi_temp_path $DIR$/tmp; uwsgi_temp_path $DIR$/tmp; scgi_temp_path $DIR$/tmp;
  access_log off; keepalive_requests 1000000; keepalive_timeout 1h;
`

// upstreamConf answers at once, so that the service costs as little as possible.
const upstreamConf = `$USER$
worker_processes 1;
pid $DIR$/nginx.pid;
error_log $DIR$/error.log warn;
events { worker_connections 4096; }
http {` + tempPaths + `
  server { listen $ADDR$; location / { default_type application/json; return 201 '{"order":4711,"item":"tea","cents":4200,"state":"paid"}'; } }
}
`

// anchorConf is the usual recipe: the key is set to PROC if it is absent, the service's answer is
// then stored in its place, and a duplicate gets it. It has two steps and no fingerprint, and
// stores only the body.
const anchorConf = nginxHead + `
http {` + tempPaths + `
  lua_package_path "/usr/share/lua/5.1/?.lua;;";
  upstream service { server $UPSTREAM$; keepalive 128; keepalive_requests 1000000; }
  server {
    listen $ADDR$;
    location /service/ { internal; proxy_pass http://service/; proxy_http_version 1.1; proxy_set_header Connection ""; }
    location / {
      content_by_lua_block {
        local redis = require "nginx.redis"
        local id = ngx.req.get_headers()["Idempotency-Key"]
        ngx.req.read_body()
        local r = redis:new()
        r:set_timeout(1000)
        local ok, err = r:connect("$REDIS_HOST$", $REDIS_PORT$)
        if not ok then return ngx.exit(503) end
        local key = "idem:" .. (ngx.var.http_authorization or "") .. ":" .. ngx.var.uri .. ":" .. id
        local set = r:set(key, "PROC", "NX", "PX", 86400000)
        if set == ngx.null then
          local was = r:get(key)
          r:set_keepalive(60000, 128)
          if was == "PROC" then ngx.status = 409 return ngx.say("in progress") end
          ngx.status = 201
          ngx.header["Content-Type"] = "application/json"
          ngx.header["Content-Length"] = #was
          return ngx.print(was)
        end
        local res = ngx.location.capture("/service" .. ngx.var.uri, { method = ngx.HTTP_POST, always_forward_body = true })
        r:set(key, res.body, "PX", 86400000)
        r:set_keepalive(60000, 128)
        ngx.status = res.status
        ngx.header["Content-Type"] = res.header["Content-Type"]
        ngx.header["Content-Length"] = #res.body
        ngx.print(res.body)
      }
    }
  }
}
`
