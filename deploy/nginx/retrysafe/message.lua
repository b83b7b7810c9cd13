-- Stored answers: a plain HTTP/1.1 message with its fields sorted by name, as package httpidem
-- writes and reads it.
local M = {codec = "message/http"}

local max_head = 65536

local text = {
  [200] = "OK", [201] = "Created", [202] = "Accepted", [203] = "Non-Authoritative Information", [204] = "No Content",
  [205] = "Reset Content", [206] = "Partial Content", [207] = "Multi-Status", [208] = "Already Reported", [226] = "IM Used",
  [300] = "Multiple Choices", [301] = "Moved Permanently", [302] = "Found", [303] = "See Other", [304] = "Not Modified",
  [305] = "Use Proxy", [307] = "Temporary Redirect", [308] = "Permanent Redirect", [400] = "Bad Request", [401] = "Unauthorized",
  [402] = "Payment Required", [403] = "Forbidden", [404] = "Not Found", [405] = "Method Not Allowed", [406] = "Not Acceptable",
  [407] = "Proxy Authentication Required", [408] = "Request Timeout", [409] = "Conflict", [410] = "Gone", [411] = "Length Required",
  [412] = "Precondition Failed", [413] = "Request Entity Too Large", [414] = "Request URI Too Long", [415] = "Unsupported Media Type",
  [416] = "Requested Range Not Satisfiable", [417] = "Expectation Failed", [418] = "I'm a teapot", [421] = "Misdirected Request",
  [422] = "Unprocessable Entity", [423] = "Locked", [424] = "Failed Dependency", [425] = "Too Early", [426] = "Upgrade Required",
  [428] = "Precondition Required", [429] = "Too Many Requests", [431] = "Request Header Fields Too Large",
  [451] = "Unavailable For Legal Reasons", [500] = "Internal Server Error", [501] = "Not Implemented", [502] = "Bad Gateway",
  [503] = "Service Unavailable", [504] = "Gateway Timeout", [505] = "HTTP Version Not Supported", [506] = "Variant Also Negotiates",
  [507] = "Insufficient Storage", [508] = "Loop Detected", [510] = "Not Extended", [511] = "Network Authentication Required",
}

-- of_transfer are the fields that belong to one transfer. They never reach the client as the
-- service sent them.
local of_transfer = {
  ["Connection"] = true, ["Keep-Alive"] = true, ["Proxy-Connection"] = true, ["Te"] = true, ["Trailer"] = true,
  ["Transfer-Encoding"] = true, ["Upgrade"] = true, ["Content-Length"] = true, ["Idempotency-Outcome"] = true,
}

-- not_stored are fields that are set again for each answer, or that only the first client gets.
local not_stored = {
  ["Proxy-Authenticate"] = true, ["Proxy-Authorization"] = true, ["Age"] = true, ["Alt-Svc"] = true, ["Idempotency-Replayed"] = true,
  ["Idempotency-Stored"] = true, ["Set-Cookie"] = true,
}

local function canonical(name)
  return (name:lower():gsub("^%l", string.upper):gsub("%-%l", string.upper))
end

-- fields returns the fields of an answer as {name, values}, sorted by name.
function M.fields(header)
  local by, names = {}, {}
  for name, v in pairs(header) do
    name = canonical(name)
    if not of_transfer[name] and not name:find("[^A-Za-z0-9!#$%%&'*+.^_`|~-]") then
      if not by[name] then
        by[name] = {}
        names[#names + 1] = name
      end
      for _, value in ipairs(type(v) == "table" and v or {v}) do
        value = value:gsub("[\r\n]", " "):match("^[ \t]*(.-)[ \t]*$")
        by[name][#by[name] + 1] = value
      end
    end
  end
  table.sort(names)
  local out = {}
  for i, name in ipairs(names) do out[i] = {name, by[name]} end
  return out
end

-- head returns the status line and the fields as they are stored, and whether they are complete. If
-- they are too large, it keeps only what is needed to find the answer.
function M.head(status, fields)
  local function made(keep)
    local lines = {("HTTP/1.1 %d %s\r\n"):format(status, text[status] or "")}
    for _, f in ipairs(fields) do
      if keep(f[1]) then
        for _, v in ipairs(f[2]) do lines[#lines + 1] = f[1] .. ": " .. v .. "\r\n" end
      end
    end
    lines[#lines + 1] = "\r\n"
    return table.concat(lines)
  end
  local h = made(function(name) return not not_stored[name] end)
  if #h <= max_head then return h, true end
  return made(function(name) return name == "Location" end), false
end

-- parse parses a stored answer into status, fields and body. It returns nil if the answer is
-- damaged.
function M.parse(b)
  local last = b:find("\r\n\r\n", 1, true)
  local status, at = b:match("^HTTP/1%.1 (%d%d%d) [^\r\n]*\r\n()")
  if not last or not status then return nil end
  local fields = {}
  while at < last + 2 do
    local name, value, behind = b:match("^([^:\r\n]+): ?([^\r\n]*)\r\n()", at)
    if not name then return nil end
    if #fields > 0 and fields[#fields][1] == name then
      local values = fields[#fields][2]
      values[#values + 1] = value
    else
      fields[#fields + 1] = {name, {value}}
    end
    at = behind
  end
  return tonumber(status), fields, b:sub(last + 4)
end

function M.bodiless(status) return status == 204 or status == 304 end

-- send sends an answer to the client.
function M.send(status, fields, body)
  local h = ngx.header
  ngx.status = status
  h["Content-Type"] = nil -- or nginx would add its own to an answer without one
  for _, f in ipairs(fields) do
    -- a service's trailers, as the gateway stores them; nginx cannot send any
    if f[1] ~= "Trailer" then h[f[1]] = #f[2] == 1 and f[2][1] or f[2] end
  end
  if M.bodiless(status) then
    ngx.send_headers()
    return
  end
  h["Content-Length"] = #body
  ngx.print(body)
end

return M
