-- retrysafe for nginx: a request with an Idempotency-Key is sent to the service at most once, and
-- every duplicate gets the first answer. See docs/gateway.md. The records are those of package
-- redisstore in the layer "nginx", so `retrysafe keys` can list and resolve them.
local digest = require "retrysafe.digest"
local inside = require "retrysafe.inside"
local key = require "retrysafe.key"
local message = require "retrysafe.message"
local problem = require "retrysafe.problem"
local random = require "retrysafe.library" "random"
local storage = require "retrysafe.store"
local json = require("cjson").new()

local M = {}
M.__index = M

-- Defaults of new. Times are in seconds. Options without a default are required or optional.
local defaults = {
  prefix = "rs:",
  service = "/retrysafe/service", -- the internal location that sends requests to the service
  pass = "@retrysafe_pass", -- the location for requests that are not guarded
  key_header = "Idempotency-Key",
  key = "optional", -- or required
  min_key = 22, -- for callers without a credential
  tenant = "credential", -- global, or the name of a variable such as remote_user
  binding = false, -- names of the cookies that tell callers without a credential apart; false: all of them
  on_doubt = "refuse", -- or reexecute: only for work that is safe to run twice
  duplicate = "replay", -- or reject
  not_run = {}, -- further statuses that the service answers before it acts, such as {409, 503}
  lease = 30,
  retention = 86400, -- or "forever"
  max_body = 1048576,
  max_answer = 1048576,
}

local redis_defaults = {host = "127.0.0.1", port = 6379, timeout = 1, database = 0, connections = 64}

local choices = {
  key = {optional = true, required = true}, on_doubt = {refuse = true, reexecute = true}, duplicate = {replay = true, reject = true},
}

local function wrong(...) error("retrysafe: " .. string.format(...), 0) end

local function filled(given, by)
  local o = {}
  for name, v in pairs(by) do o[name] = v end
  for name, v in pairs(given or {}) do o[name] = v end
  return o
end

local known = {namespace = true, proxy_timeouts = true, secret = true, redis = true, operation = true}
local known_redis = {socket = true, username = true, password = true, allow_eviction = true, pool = true}

-- may_have_acted are statuses of a service, or of a proxy before it, that has begun.
local may_have_acted = {[500] = true, [502] = true, [504] = true}

local function check_not_run(o)
  if type(o.not_run) ~= "table" then wrong("not_run must be a list of statuses, such as {409, 503}") end
  for _, status in ipairs(o.not_run) do
    if type(status) ~= "number" or status < 300 or status > 599 or status % 1 ~= 0 then
      wrong("not_run has %s; use statuses of 300 to 599 that the service answers before it acts", tostring(status))
    end
    if may_have_acted[status] and o.on_doubt ~= "reexecute" then
      wrong("not_run has %d, which also comes after a request has taken effect; leave it out, or set on_doubt to \"reexecute\"", status)
    end
  end
end

local function check(o)
  for name in pairs(o) do
    if defaults[name] == nil and not known[name] then wrong("there is no option %s", name) end
  end
  for name in pairs(o.redis) do
    if redis_defaults[name] == nil and not known_redis[name] then wrong("there is no option redis.%s", name) end
  end
  for name, list in pairs(choices) do
    if not list[o[name]] then wrong("%s is %q", name, tostring(o[name])) end
  end
  if type(o.namespace) ~= "string" or o.namespace == "" then
    wrong("namespace is not set, and other services may keep their records in the same Redis: name this service, for example namespace = \"shop\"")
  end
  if o.secret == "" then
    wrong("RETRYSAFE_SECRET is not set, and others may read Redis: they could guess credentials and keys from their digests; " ..
      "set the same random secret on all servers of this Redis, such as the output of: openssl rand -hex 32, and name it in nginx.conf: env RETRYSAFE_SECRET;")
  end
  if #o.secret < 16 then wrong("RETRYSAFE_SECRET has %d bytes; use at least 16 random ones", #o.secret) end
  for _, name in ipairs {"lease", "max_body", "max_answer", "proxy_timeouts"} do
    if type(o[name]) ~= "number" or o[name] <= 0 then wrong("%s must be a positive number", name) end
  end
  check_not_run(o)
  if o.retention ~= "forever" and (type(o.retention) ~= "number" or o.retention <= 0) then wrong("retention must be a positive number or forever") end
  if o.proxy_timeouts >= o.lease then -- nothing renews the lease
    wrong("the lease of %g s must be longer than proxy_timeouts, the sum of proxy_connect_timeout, proxy_send_timeout and proxy_read_timeout of %s (%g s)",
      o.lease, o.service, o.proxy_timeouts)
  end
  if o.max_answer > 1048576 then wrong("max_answer is at most 1048576") end
end

-- secret_of_environment returns RETRYSAFE_SECRET, or an empty string. White space at an end is most
-- often the line feed of a file, which other processes do not have.
local function secret_of_environment()
  local secret = os.getenv("RETRYSAFE_SECRET") or ""
  if secret:find("^%s") or secret:find("%s$") then
    wrong("RETRYSAFE_SECRET begins or ends with white space, so it differs from the same secret without it; set it without, such as with RETRYSAFE_SECRET=$(cat FILE)")
  end
  return secret
end

-- new returns a guard. Call it in init_by_lua_block, so that nginx does not start with invalid
-- options.
function M.new(given)
  local o = filled(given, defaults)
  o.redis = filled(o.redis, redis_defaults)
  o.secret = o.secret or secret_of_environment()
  o.redis.password = o.redis.password or os.getenv("RETRYSAFE_REDIS_PASSWORD")
  check(o)
  local r = o.redis
  r.pool = ("retrysafe %s %s %s"):format(r.socket or r.host .. ":" .. r.port, r.database, r.username or "")
  return setmetatable({o = o, store = storage.new(o)}, M)
end

-- with returns a guard with other options, for a location that differs.
function M:with(other)
  local o = filled(other, self.o)
  return M.new(o)
end

-- hide replaces URLs of the service in its answer. Call it in header_filter_by_lua_block of a
-- location that sends requests to the service and has no seen(), with the name in its proxy_pass.
M.hide = inside.hide

-- seen records for a guarded request what happened at the service, and hides the service's address.
-- Call it in header_filter_by_lua_block of the service's location, with the name in its proxy_pass.
function M.seen(name)
  local v = ngx.var
  inside.hide(name)
  ngx.ctx.retrysafe = {
    status = v.upstream_status, sent = v.upstream_bytes_sent, came = v.upstream_header_time, received = v.upstream_bytes_received,
    hidden = v.upstream_http_connection or v.upstream_http_content_length or v.upstream_http_transfer_encoding,
  }
end

local function strip()
  ngx.req.clear_header("Idempotency-Attempt")
  ngx.req.clear_header("Idempotency-Fence")
end

-- tenant returns the caller, and the credential that duplicates must carry.
local function tenant(o)
  if o.tenant == "global" then return "global" end
  if o.tenant ~= "credential" then return ngx.var[o.tenant] or "", nil, true end
  local headers = ngx.req.get_headers(0)
  local header = headers["Authorization"] or ""
  if type(header) == "table" then return nil end
  local shown = header ~= "" and header or key.anonymous(headers["Cookie"], o.binding)
  return key.credential(o.secret, header), digest.credential(o.secret, shown)
end

-- body reads the whole request body: it is part of the fingerprint, and a request whose body breaks
-- off must not run.
local function body(o)
  local length = tonumber(ngx.var.http_content_length or "")
  if length and length > o.max_body then return nil, "body-too-large" end
  ngx.req.read_body()
  local b = ngx.req.get_body_data()
  local file = not b and ngx.req.get_body_file()
  if file then -- larger than client_body_buffer_size
    local f = io.open(file, "rb")
    b = f and f:read(o.max_body + 1)
    if f then f:close() end
    if not b then return nil, "body-incomplete" end
  end
  b = b or ""
  if #b > o.max_body then return nil, "body-too-large" end
  if length and #b ~= length then return nil, "body-incomplete" end
  return b
end

-- guard answers the request of a location. Call it in content_by_lua_block.
function M:guard()
  local o, method = self.o, ngx.req.get_method()
  local value = ngx.req.get_headers(0)[o.key_header] -- 0: also fields after the hundredth
  if method ~= "POST" and method ~= "PATCH" or value == nil and o.key ~= "required" then
    strip()
    return ngx.exec(o.pass)
  end
  if value == nil then return problem.send("key-missing") end
  if ngx.req.http_version() >= 2 then
    ngx.log(ngx.ERR, "retrysafe: a guarded location of this server gets HTTP/2, which subrequests cannot; see docs/gateway.md")
    return ngx.exit(ngx.HTTP_INTERNAL_SERVER_ERROR)
  end
  local id, why = key.parse(value)
  if not id then return problem.send("key-malformed", {detail = "In " .. o.key_header .. ", " .. why .. ". Nothing was done."}) end
  local who, binding, named = tenant(o)
  if not who then return problem.send("caller-ambiguous") end
  if named and who == "" then return problem.send("tenant-missing") end
  if who == "" and #id < o.min_key then return problem.send("key-too-short") end
  local content, refused = body(o)
  if not content then return problem.send(refused) end
  local path, query = ngx.var.request_uri:match("^([^?]*)%??(.*)$")
  local claim = {
    key = o.prefix .. key.text(o.namespace, who, o.operation or method .. " " .. path, id), owner = random.bytes(16, true),
    print = key.fingerprint(method, path, query, ngx.var.http_content_type or "", content), binding = binding,
    reexecute = o.on_doubt == "reexecute",
  }
  local status, record, at = self.store:acquire(claim)
  if status == storage.WON then return self:run(claim, record, method, content) end
  if not status then
    ngx.log(ngx.ERR, "retrysafe: the store: ", record)
    return problem.send("store-unavailable", {retry_after = 1})
  end
  return self:refuse(status, record, at)
end

-- refuse answers a request that did not acquire its key.
function M:refuse(status, r, at)
  local o = self.o
  if status == storage.FINISHED then return self:replay(r) end
  if status == storage.IN_PROGRESS then
    return problem.send("in-progress", {error_code = 201, retry_after = problem.jittered((r.lease - at) / 1e6)})
  end
  local codes = {
    [storage.IN_DOUBT] = "outcome-unknown", [storage.MISMATCH] = "payload-mismatch", 
    [storage.PRINCIPAL] = o.tenant == "credential" and not ngx.var.http_authorization and "cookies-changed" or "principal-changed",
  }
  if codes[status] then return problem.send(codes[status]) end
  ngx.log(ngx.ERR, "retrysafe: the store answers ", status)
  return problem.send("store-unavailable", {retry_after = 1})
end

-- replay answers with the stored answer of a finished record.
function M:replay(r)
  if self.o.duplicate == "reject" then return problem.send("already-done", {error_code = 202}) end
  if r.codec == message.codec and r.kept then
    local status, fields, content = message.parse(r.body)
    if not status then return problem.send("answer-not-kept") end
    fields[#fields + 1] = {"Idempotency-Replayed", {"true"}}
    return message.send(status, fields, content)
  end
  if r.state == 4 then
    local ok, failure = pcall(json.decode, r.body)
    return problem.send("resolved-failed", {detail = ok and type(failure) == "table" and failure.message or nil})
  end
  if not r.kept then
    local more = {}
    if r.digest then
      local status, fields = message.parse(r.body)
      more = {answer_length = r.size, answer_sha256 = digest.hex(r.digest), answer_status = status}
      for _, f in ipairs(fields or {}) do
        if f[1] == "Location" then more.location = f[2][1] end
      end
    end
    return problem.send("answer-not-kept", more)
  end
  -- An answer that an operator gave when resolving an outcome in doubt.
  local kind = r.codec == "json" and "application/json" or "application/octet-stream"
  return message.send(200, {{"Content-Type", {kind}}, {"Idempotency-Replayed", {"true"}}}, r.body)
end

-- not_run are the statuses whose definition says that the request was not processed; see
-- docs/outcomes.md. Services answer those of not_run_reexecute before they act and after it.
local not_run = {
  [307] = true, [308] = true, [401] = true, [403] = true, [407] = true, [408] = true, [421] = true, [425] = true, [426] = true,
  [428] = true, [429] = true, [431] = true,
}
local not_run_reexecute = {[409] = true, [423] = true}

-- same_path reports whether a redirect leads to the path of the request, apart from what frameworks
-- add by themselves: another host or scheme, a slash at the end, lower case. A service that has acted
-- sends its client to another page.
local function same_path(location)
  if type(location) ~= "string" or location == "" then return false end
  local asked = ngx.var.request_uri:match("^[^?#]*")
  local rest, absolute = location:gsub("^%a[%w+.-]*:", "")
  local path, host = rest:gsub("^//[^/?#]*", "")
  path = path:match("^[^?#]*")
  if path == "" and absolute + host == 0 then return true end
  if path:sub(1, 1) ~= "/" and absolute + host == 0 then path = asked:match("^.*/") .. path end
  local function plain(p) return (p:gsub("/+$", "")):lower() end
  return plain(path) == plain(asked)
end

-- released reports whether an answer with this status and this Location releases the key.
function M:released(status, location)
  for _, listed in ipairs(self.o.not_run) do
    if listed == status then return true end
  end
  if status == 307 or status == 308 then return same_path(location) end
  local reexecute = self.o.on_doubt == "reexecute"
  return not_run[status] or reexecute and (not_run_reexecute[status] or status >= 500) or false
end

local function answered(seen) return (seen.came or ""):find("%d") ~= nil end

-- unsent reports whether no byte was given to a connection. A 502 without an upstream comes from a
-- name that could not be resolved.
local function unsent(res, seen)
  local sent = seen.sent or (not seen.status and res.status == 502 and "0") or "unknown"
  return not answered(seen) and sent:find("^[0, ]+$") ~= nil
end

-- doubt returns why the outcome of an exchange is unknown, in one word, and the status for the
-- client. It returns nil if there is an answer.
local function doubt(res, seen)
  if not answered(seen) then
    if res.status == 504 then return "timeout", 504 end
    if (seen.received or "0"):find("[1-9]") then return "garbage", 502 end
    return "reset", 502
  end
  -- An answer without any field may be anything: nginx reads data without a head as an answer of
  -- HTTP/0.9.
  if res.status < 200 or not seen.hidden and next(res.header) == nil then return "garbage", 502 end
  -- nginx does not say whether an answer was cut off or came too slowly
  if res.truncated then return "truncated", 502 end
end

-- run sends the request to the service, once, and finishes the attempt by the answer.
function M:run(claim, r, method, content)
  local o, holder, ctx = self.o, r.fence8 .. claim.owner, {}
  ngx.req.set_header("Idempotency-Attempt", r.attempt)
  ngx.req.set_header("Idempotency-Fence", ("%.0f"):format(digest.number(r.fence8, 1, 8)))
  ngx.req.set_header("Accept-Encoding", "identity") -- a duplicate may not accept the coding that the first request did
  ngx.req.clear_header("Upgrade")
  local began = ngx.now()
  local res = ngx.location.capture(o.service, {method = ngx["HTTP_" .. method], body = content, ctx = ctx})
  local seen = ctx.retrysafe
  if not seen then
    ngx.log(ngx.ERR, "retrysafe: ", o.service, " has no header_filter_by_lua_block with seen(); nobody can tell what was sent")
    seen = {}
  elseif unsent(res, seen) then
    self.store:release(claim.key, holder, false, "not-sent")
    return problem.send("upstream-unreachable", {retry_after = 1})
  end
  local cause, status = doubt(res, seen)
  if cause then
    ngx.log(ngx.WARN, "retrysafe: outcome unknown: ", cause, " after ", ngx.now() - began, " s")
    if not claim.reexecute then self.store:release(claim.key, holder, true, cause) end -- else the lease expires: the service may still be working
    return problem.send("outcome-unknown", {status = status})
  end
  if ngx.now() - began > o.lease then
    ngx.log(ngx.ERR, "retrysafe: an answer took longer than the lease")
  end
  self:settle(claim, holder, res)
end

-- settle stores the answer, and then sends it: an answer that a client has received in full is
-- stored.
function M:settle(claim, holder, res)
  local o, status, content = self.o, res.status, message.bodiless(res.status) and "" or res.body
  local fields, outcome = message.fields(res.header), res.header["Idempotency-Outcome"]
  local function set(name, value)
    for _, f in ipairs(fields) do
      if f[1] == name then return end
    end
    fields[#fields + 1] = {name, {value}}
    table.sort(fields, function(a, b) return a[1] < b[1] end)
  end
  set("Date", ngx.http_time(ngx.time()))
  if outcome == "not-executed" or outcome ~= "executed" and self:released(status, res.header["Location"]) then
    self.store:release(claim.key, holder, false, "")
    return message.send(status, fields, content)
  end
  local head, whole = message.head(status, fields)
  local answer = {codec = message.codec, kept = true, size = 0, body = head .. content}
  if #content > o.max_answer or not whole then
    answer = {codec = message.codec, kept = false, size = #content, digest = digest.sum(content), body = head}
  end
  local kept = self.store:complete(claim.key, holder, answer)
  if kept == "lost" then return problem.send("lease-lost", {retry_after = 1}) end
  if not kept then set("Idempotency-Stored", "unconfirmed") end
  return message.send(status, fields, content)
end

-- too_large is for the location of error_page 413: nginx refuses a body over client_max_body_size
-- before a guard sees it.
function M.too_large() problem.send("body-too-large") end

return M
