-- SHA-256 and digests made with it, and the numbers of a packed record.
local sha256 = require "retrysafe.library" "sha256"
local bit = require "bit"
local char, byte, floor = string.char, string.byte, math.floor

local M = {}

function M.sum(...)
  local h = sha256:new()
  for i = 1, select("#", ...) do h:update((select(i, ...))) end
  return h:final()
end

local function xored(s, n)
  return (s:gsub(".", function(c) return char(bit.bxor(byte(c), n)) end))
end

local function hmac(key, ...)
  if #key > 64 then key = M.sum(key) end
  key = key .. ("\0"):rep(64 - #key)
  return M.sum(xored(key, 0x5c), M.sum(xored(key, 0x36), ...))
end

-- credential returns the digest of a value that must be compared but not read.
function M.credential(secret, data)
  if secret == "" then return M.sum("retrysafe credential\n", data) end
  return hmac(secret, "retrysafe credential\n", data)
end

-- check returns the check value of a secret, by which all processes of a namespace know each other.
function M.check(secret)
  return hmac(secret, "retrysafe check value of the secret 1\n")
end

function M.hex(s)
  return (s:gsub(".", function(c) return ("%02x"):format(byte(c)) end))
end

-- be8 returns n, below 2^53, as 8 bytes. number returns the number in size bytes of s from at on.
function M.be8(n)
  local out = {}
  for i = 8, 1, -1 do
    out[i], n = char(n % 256), floor(n / 256)
  end
  return table.concat(out)
end

function M.number(s, at, size)
  local n = 0
  for i = at, at + size - 1 do n = n * 256 + byte(s, i) end
  return n
end

return M
