-- Loads a library of OpenResty. Debian calls it nginx.*, all others resty.*.
return function(name)
  local ok, found = pcall(require, "nginx." .. name)
  if ok then return found end
  return require("resty." .. name)
end
