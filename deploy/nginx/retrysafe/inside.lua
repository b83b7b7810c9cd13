-- Keeps the addresses of the service out of answers. A service that does not know nginx's name makes
-- absolute URLs of its own; a client that follows one acts at the service itself, past the guard, or
-- reaches nothing. The rules are those of the gateway.
local M = {}

local usual_port = {http = "80", https = "443"}

-- numeric reads an IPv4 address as browsers do: of one to four numbers, each decimal, octal with 0 or
-- hexadecimal with 0x before it. The last one fills all bytes that are left.
local function numeric(host)
  local parts, sum = {}, 0
  for part in (host .. "."):gmatch("([^.]*)%.") do parts[#parts + 1] = part end
  if #parts > 4 then return nil end
  for i, part in ipairs(parts) do
    local n
    if part:find("^0x%x*$") then n = tonumber("0" .. part:sub(3), 16)
    elseif part:find("^0[0-7]+$") then n = tonumber(part, 8)
    elseif part == "0" or part:find("^[1-9]%d*$") then n = tonumber(part) end
    local size = i == #parts and 256 ^ (5 - #parts) or 256
    if not n or n >= size then return nil end
    sum = sum * size + n
  end
  return ("%d.%d.%d.%d"):format(math.floor(sum / 16777216), math.floor(sum / 65536) % 256, math.floor(sum / 256) % 256, sum % 256)
end

-- name_of returns a host in a form that can be compared, without escapes: all names of this machine are
-- one. IPv6 is compared as text, and a name of other letters than ASCII's is not its form with xn--.
local function name_of(host)
  host = host:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end):lower():gsub("%.$", "")
  host = numeric(host) or host
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
-- finds the authority where browsers do, which take \ for /, leave tabs out, and skip controls. After
-- a scheme that is not that of the page they need no slashes.
function M.reference(all, target)
  local url = target:gsub("\t", ""):gsub("^[%z\1-\32]+", ""):gsub("[%z\1-\32]+$", "")
  local scheme, rest = url:match("^(%a+):(.*)$")
  scheme = (scheme or ""):lower()
  if not usual_port[scheme] then scheme, rest = "", url end
  local slashes, authority, path = rest:match("^([/\\]*)([^/\\?#]*)(.*)$")
  if scheme == "" and #slashes < 2 or not of_service(all, scheme, authority:match("([^@]*)$")) then return target end
  if not path:find("^[/\\]") then return "/" .. path end
  path = "/" .. path:sub(2)
  if path:find("^/[/\\]") then return "/." .. path end -- two slashes would name another host
  return path
end

-- refresh edits a Refresh field: a number of seconds, and optionally a URL. A semicolon, a comma or
-- white space alone separates them.
local function refresh(all, v)
  local before, url = v:match("^([ \t]*[^;, \t]*[ \t]*[;,][ \t]*)(.*)$")
  if not before then before, url = v:match("^([ \t]*[^;, \t]*[ \t]+)(.*)$") end
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

-- edit_parameter edits the value of a parameter, quoted or not, and what is in <> if that is one of
-- the marks. They begin what is passed over: all other quoted strings.
local function edit_parameter(v, marks, parameter, by)
  local name = parameter .. "[ \t]*=[ \t]*$"
  local function named(last)
    local before = v:sub(math.max(1, last - #parameter - 16), last)
    return before:lower():find(name)
  end
  local out, i = {}, 1
  while i <= #v do
    local c = v:sub(i, i)
    local mark = marks:find(c, 1, true) and (c == "<" and ">" or c)
    local last = mark and closing(v, i + 1, mark)
    local bare = not mark and v:match('^[^"=;,<> \t][^";,<> \t]*', i)
    if last then
      local text = v:sub(i + 1, last - 1)
      if mark == ">" or named(i - 1) then text = by(text) end
      out[#out + 1] = c .. text .. mark
      i = last + 1
    elseif bare and named(i - 1) then
      out[#out + 1] = by(bare)
      i = i + #bare
    else
      out[#out + 1] = c
      i = i + 1
    end
  end
  return table.concat(out)
end

-- link edits a Link field (RFC 8288): the target of each link, in <>, and its anchor.
local function link(all, v)
  return edit_parameter(v, '<"', "anchor", function(target) return M.reference(all, target) end)
end

-- challenge edits a WWW-Authenticate field: resource_metadata has to be absolute (RFC 9728).
local function challenge(all, v)
  local host = ngx.var.http_host or ""
  return edit_parameter(v, '"', "resource_metadata", function(target)
    local path = M.reference(all, target)
    if path == target or not host:find("^[%w%[%]._:-]+$") then return path end
    return ngx.var.scheme .. "://" .. host .. path
  end)
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
  edit("WWW-Authenticate", challenge)
  edit("Set-Cookie", cookie)
  local alternative = h["Alt-Svc"]
  if alternative and names_service(all, type(alternative) == "table" and table.concat(alternative, ",") or alternative) then h["Alt-Svc"] = nil end
end

return M
