-- Keeps the addresses of the service out of answers. A service that does not know nginx's name makes
-- absolute URLs of its own; a client that follows one acts at the service itself, past the guard, or
-- reaches nothing. The rules are those of the gateway.
local M = {}

local usual_port = {http = "80", https = "443"}

-- name_of returns a host in a form that can be compared: all names of this machine are one.
local function name_of(host)
  host = host:lower():gsub("%.$", "")
  if host:find("^127%.%d+%.%d+%.%d+$") or host == "0.0.0.0" or host == "[::1]" or host == "[::]" then return "localhost" end
  return host
end

local function split(authority)
  local host, port = authority:match("^(.*):(%d*)$")
  port = (port or ""):gsub("^0+", "")
  return name_of(host or authority), port
end

-- addresses returns those of the service of this location: the name that proxy_pass has for it, and
-- the servers that were asked.
local function addresses(name)
  local all = {}
  local function add(authority)
    local host, port = split(authority)
    all[#all + 1] = {host = host, port = port ~= "" and port or nil}
  end
  if name then add(name) end
  for addr in (ngx.var.upstream_addr or ""):gmatch("[^ ,]+") do
    if addr ~= ":" and not addr:find("^unix:") then add(addr) end
  end
  return all
end

local function of_service(all, scheme, authority)
  local host, port = split(authority)
  if port == "" then port = nil end
  for _, a in ipairs(all) do
    if a.host == host and (port == a.port or (port or usual_port[scheme]) == (a.port or usual_port[scheme])) then return true end
  end
  return false
end

-- reference returns a URL of the service as a reference to its path, and any other unchanged. It
-- finds the authority where browsers do, which take \ for /, leave tabs out, and skip controls.
function M.reference(all, target)
  local url = target:gsub("\t", ""):gsub("^[%z\1-\32]+", ""):gsub("[%z\1-\32]+$", "")
  local scheme, rest = url:match("^(%a+):(.*)$")
  scheme = (scheme or ""):lower()
  if not usual_port[scheme] then scheme, rest = "", url end
  local slashes, authority, path = rest:match("^([/\\]*)([^/\\?#]*)(.*)$")
  if #slashes < 2 or not of_service(all, scheme, authority:match("([^@]*)$")) then return target end
  if not path:find("^[/\\]") then return "/" .. path end
  path = "/" .. path:sub(2)
  if path:find("^/[/\\]") then return "/." .. path end -- two slashes would name another host
  return path
end

-- refresh edits a Refresh field: a number of seconds, and optionally a URL.
local function refresh(all, v)
  local before, url = v:match("^([^;,]*[;,][ \t]*)(.*)$")
  if not before then return v end
  local word, after = url:match("^([uU][rR][lL][ \t]*=[ \t]*)(.*)$")
  if word then before, url = before .. word, after end
  local quote, rest = url:match("^([\"'])(.*)$")
  if quote then
    before, url = before .. quote, rest
    local last = url:find(quote, 1, true)
    if last then return before .. M.reference(all, url:sub(1, last - 1)) .. url:sub(last) end
  end
  return before .. M.reference(all, url)
end

-- closing returns the place of the mark that ends a string, or nil. In a quoted one \ escapes.
local function closing(v, from, mark)
  local i = from
  while i <= #v do
    local c = v:sub(i, i)
    if c == mark then return i end
    if mark == '"' and c == "\\" then i = i + 1 end
    i = i + 1
  end
end

-- link edits a Link field (RFC 8288): the target of each link, in <>, and its anchor.
local function link(all, v)
  local out, i = {}, 1
  while i <= #v do
    local c = v:sub(i, i)
    local mark = c == "<" and ">" or c == '"' and '"'
    local last = mark and closing(v, i + 1, mark)
    if last then
      local text = v:sub(i + 1, last - 1)
      if mark == ">" or v:sub(1, i - 1):lower():find("anchor[ \t]*=[ \t]*$") then text = M.reference(all, text) end
      out[#out + 1] = c .. text .. mark
      i = last + 1
    else
      out[#out + 1] = c
      i = i + 1
    end
  end
  return table.concat(out)
end

-- cookie removes the Domain of a cookie if it is a host of the service, so that browsers accept the
-- cookie for nginx's, unless it is a domain of the host that the client has called.
local function cookie(all, v, client)
  local kept, first = {}, true
  for part in (v .. ";"):gmatch("([^;]*);") do
    local domain = not first and part:match("^%s*[dD][oO][mM][aA][iI][nN]%s*=%s*(.-)%s*$")
    if domain then
      domain = domain:gsub("^%.", ""):lower()
      local own = domain == client or client:sub(-#domain - 1) == "." .. domain
      local named = false
      for _, a in ipairs(all) do named = named or a.host == name_of(domain) end
      if named and not own then part = nil end
    end
    kept[#kept + 1] = part
    first = false
  end
  return table.concat(kept, ";")
end

local function names_service(all, v)
  for quoted in v:gmatch('"([^"]*)"') do
    if not quoted:find("^:") and (of_service(all, "https", quoted) or of_service(all, "http", quoted)) then return true end
  end
  return false
end

-- hide edits the answer of the service, in header_filter_by_lua_block of its location. name is what
-- proxy_pass names, without its scheme and path; nil: the addresses of the servers alone.
function M.hide(name)
  local h, all = ngx.header, addresses(name)
  local client = (ngx.var.http_host or ""):lower():gsub(":%d*$", "")
  local function edit(name, by)
    local v = h[name]
    if type(v) == "string" then
      local edited = by(all, v, client)
      if edited ~= v then h[name] = edited end
    elseif type(v) == "table" then
      local edited = {}
      for i, one in ipairs(v) do edited[i] = by(all, one, client) end
      if table.concat(edited, "\n") ~= table.concat(v, "\n") then h[name] = edited end
    end
  end
  edit("Location", M.reference)
  edit("Content-Location", M.reference)
  edit("Refresh", refresh)
  edit("Link", link)
  edit("Set-Cookie", cookie)
  local alternative = h["Alt-Svc"]
  if alternative and names_service(all, type(alternative) == "table" and table.concat(alternative, ",") or alternative) then h["Alt-Svc"] = nil end
end

return M
