-- The caller and the key of a request: the key's header, the tenant, and the text that names the
-- record. All are as in package httpidem, so that both give a request the same name.
local digest = require "retrysafe.digest"
local json = require("cjson").new()
json.decode_invalid_numbers(false)

local M = {}

-- read_string returns where a String of RFC 8941 ends that begins at the quote, and its value.
local function read_string(v, at)
  local said, i = {}, at + 1
  while i <= #v do
    local c = v:sub(i, i)
    if c == '"' then return i, table.concat(said) end
    if c == "\\" then
      i = i + 1
      c = v:sub(i, i)
      if c ~= '"' and c ~= "\\" then return nil end
    elseif c:find("[^ -~]") then
      return nil
    end
    said[#said + 1] = c
    i = i + 1
  end
end

-- items are patterns of the bare items of RFC 8941, section 3.3; only their ends matter.
local items = {"^:[A-Za-z0-9+/=]*:()", "^%?[01]()", "^%-?[0-9][0-9.]*()", "^[A-Za-z*][A-Za-z0-9!#$%%&'*+%-.^_`|~:/]*()"}

local function item_end(v, at)
  if v:sub(at, at) == '"' then
    local last = read_string(v, at)
    return last and last + 1
  end
  for i, pattern in ipairs(items) do
    local behind = v:match(pattern, at)
    if behind and (i ~= 3 or v:sub(behind - 1, behind - 1) ~= ".") then return behind end
  end
end

-- parameters reports whether only parameters follow from at on.
local function parameters(v, at)
  while at <= #v do
    at = v:match("^; *[a-z*][a-z0-9_%-.*]*()", at)
    if not at then return false end
    if v:sub(at, at) == "=" then
      at = item_end(v, at + 1)
      if not at then return false end
    end
  end
  return true
end

-- parse parses the value of the key's header: a string, or a table if the field came more than
-- once. It returns nil and the reason if the value is malformed.
function M.parse(v)
  if type(v) == "table" then return nil, "the field stands in the request more than once; send one key" end
  local key = v
  if v == "" then
    return nil, "the value is empty; send a random key, for example a UUID"
  elseif v:sub(1, 1) == '"' then
    local last
    last, key = read_string(v, 1)
    if not last then return nil, "the value begins with a quote and is no String of RFC 8941" end
    if not parameters(v, last + 1) then return nil, "something other than parameters follows the closing quote; a list of keys is not allowed" end
  elseif v:find('[^!-~]') or v:find('[",;\\]') then
    return nil, 'the value has a character that a bare key may not have (only 0x21 to 0x7E without " , ; \\); quote it'
  end
  if #key == 0 or #key > 255 then return nil, "the key must have 1 to 255 octets" end
  return key
end

local function base64(s, url)
  if url then
    if s:find("[^A-Za-z0-9_-]") then return nil end
    s = s:gsub("-", "+"):gsub("_", "/")
    s = s .. ("="):rep(-#s % 4)
  end
  if #s % 4 ~= 0 or not s:find("^[A-Za-z0-9+/]*=?=?$") then return nil end
  return ngx.decode_base64(s)
end

-- subject returns iss and sub of a token that has the form of a JWT, without verifying it.
local function subject(token)
  local payload = token:match("^[^.]*%.([^.]*)%.[^.]*$")
  payload = payload and #token <= 16384 and base64(payload, true)
  local ok, claims = pcall(json.decode, payload or "")
  if not ok or type(claims) ~= "table" then return nil end
  local iss, sub = claims.iss, claims.sub
  if iss == nil or iss == ngx.null then iss = "" end
  if type(sub) == "number" and sub % 1 == 0 and math.abs(sub) < 2 ^ 53 then sub = ("%.0f"):format(sub) end
  if type(iss) ~= "string" or type(sub) ~= "string" or sub == "" then return nil end
  return iss .. "\0" .. sub
end

-- credential returns the tenant that the Authorization header names: its stable part, or a digest
-- of the whole.
function M.credential(secret, header)
  if header == "" then return "" end
  local function of(kind, s) return kind .. ":" .. digest.hex(digest.credential(secret, kind .. "\0" .. s)) end
  local scheme, rest = header:match("^([^ ]*) *(.*)$")
  scheme = scheme:lower()
  local user = scheme == "basic" and (base64(rest) or ""):match("^([^:]*):")
  if user then return of("basic", user) end
  local who = scheme == "bearer" and subject(rest)
  if who then return of("jwt", who) end
  -- Every spelling of the scheme names the same caller.
  return of("credential", header:find(" ", 1, true) and scheme .. " " .. rest:match("^(.-) *$") or header)
end

-- anonymous returns what tells callers without a credential apart: all their cookies, or the named
-- ones.
function M.anonymous(cookies, named)
  local shown, want = {}, nil
  if named then
    want = {}
    for _, name in ipairs(named) do want[name] = true end
  end
  for _, line in ipairs(type(cookies) == "table" and cookies or {cookies}) do
    for pair in line:gmatch("[^;]+") do
      pair = pair:match("^[ \t]*(.-)[ \t]*$")
      local name, value = pair:match("^([^=]*)=?(.*)$")
      name = name:match("^[ \t]*(.-)[ \t]*$")
      if pair ~= "" and (not want or want[name]) then shown[#shown + 1] = want and name .. "=" .. value or pair end
    end
  end
  table.sort(shown)
  return "anonymous\n" .. table.concat(shown, "\n")
end

local function is_digest(s) return #s == 72 and s:find("^~sha256%.[0-9a-f]+$") ~= nil end

-- part returns s as a part of a key's text, however long it is.
local function part(s)
  if #s > 512 or is_digest(s) then return "~sha256." .. digest.hex(digest.sum(s)) end
  return (s:gsub("[^A-Za-z0-9._~-]", function(c) return ("%%%02X"):format(c:byte()) end):gsub("^~", "%%7E"))
end

-- text returns the name of the record.
function M.text(namespace, tenant, operation, id)
  return part(namespace) .. "/nginx/" .. part(tenant) .. "/" .. part(operation) .. "/" .. part(id)
end

-- check_of returns the text of the key whose record has the check value of a namespace's secret.
function M.check_of(namespace) return part(namespace) .. "/secret//secret/check" end

-- boundary returns the boundary of a multipart content type, or nil if it has none that can be
-- parsed.
local function boundary(content_type)
  local rest, found = content_type:match("^[^;]*(.*)$"), {}
  while rest:find("[^%s;]") do
    local name, behind = rest:match("^%s*;%s*([^%s;=\"]+)%s*=%s*()")
    if not name then return nil end
    local value, last
    if rest:sub(behind, behind) == '"' then
      last, value = read_string(rest, behind)
      last = last and last + 1
    else
      value, last = rest:match('^([^%s;,="/()<>@:\\%[%]?]+)()', behind)
    end
    name = name:lower()
    if not last or found[name] and found[name] ~= value then return nil end
    found[name], rest = value, rest:sub(last)
  end
  return found.boundary
end

-- replaced returns s with each what replaced by with, both plain text.
local function replaced(s, what, with)
  local out, at = {}, 1
  while true do
    local from, to = s:find(what, at, true)
    if not from then break end
    out[#out + 1], out[#out + 2] = s:sub(at, from - 1), with
    at = to + 1
  end
  out[#out + 1] = s:sub(at)
  return table.concat(out)
end

-- fingerprint returns the fingerprint of version 1, after the byte of the version. Path and query
-- are as sent.
function M.fingerprint(method, path, query, content_type, body)
  local media = content_type:match("^[^;]*"):match("^%s*(.-)%s*$"):lower()
  if media:find("^multipart/") then
    local b = boundary(content_type)
    if b and b ~= "" then body = replaced(body, "--" .. b, "--") end
  end
  return "\1" .. digest.sum("rs1\n", method, "\n", path, "\n", query, "\n", media, "\n", digest.hex(digest.sum(body)))
end

return M
