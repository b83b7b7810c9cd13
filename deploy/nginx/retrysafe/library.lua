-- A library of OpenResty under the name that it has here: Debian's is nginx.*, everybody else's resty.*.
return function(name)
  local ok, found = pcall(require, "nginx." .. name)
  if ok then return found end
  return require("resty." .. name)
end
