-- The script of wrk (see posts.ts): posts the request of a file so often, each with a number of its own, and prints when
-- it began and how long each 201 took. wrk's own latencies are not used: it corrects them for requests that it did not
-- send in time. The number comes back in the answer, so that an answer finds its request.
local ffi = require 'ffi'
ffi.cdef [[
  typedef struct { long seconds; long nanoseconds; } moment;
  int clock_gettime(int clock, moment *at);
  int getpid(void);
  int kill(int pid, int signal);
]]
local MONOTONIC, INTERRUPT, FOREVER = 1, 2, 1000000

local at = ffi.new('moment')
local function now()
  ffi.C.clock_gettime(MONOTONIC, at)
  return tonumber(at.seconds) * 1000 + tonumber(at.nanoseconds) / 1e6
end

local count = tonumber(os.getenv('POSTS_COUNT'))
local rate = tonumber(os.getenv('POSTS_RATE'))
local mark = os.getenv('POSTS_MARK')
local first = tonumber(mark)
local pattern = 'reader(' .. mark:sub(1, 4) .. '%d+)@'
local parts, sent, latencies = {}, {}, {}
local turns, requests, began = 0, 0, nil

function init()
  local file = assert(io.open(os.getenv('POSTS_REQUEST'), 'rb'))
  local text = file:read('*a')
  file:close()
  local from = 1
  while true do
    local start, finish = text:find(mark, from, true)
    parts[#parts + 1] = text:sub(from, (start or 0) - 1)
    if not start then break end
    from = finish + 1
  end
end

-- Asked before each request: milliseconds to wait with it.
function delay()
  began = began or now()
  local turn = turns
  turns = turns + 1
  if turn >= count then return FOREVER end
  if not rate then return 0 end
  return math.max(0, math.ceil(began + turn / rate * 1000 - now()))
end

function request()
  local text = table.concat(parts, tostring(first + requests))
  sent[requests] = now()
  requests = requests + 1
  return text
end

local function finish(problem)
  io.stdout:write(
    string.format('\n{"began":%.3f,"problem":"%s","latencies":[%s]}\n', began, problem, table.concat(latencies, ','))
  )
  io.stdout:flush()
  ffi.C.kill(ffi.C.getpid(), INTERRUPT)
end

function response(status, _, body)
  if status ~= 201 then return finish('answer ' .. status) end
  local number = body:match(pattern)
  if not number then return finish('an answer to no request') end
  latencies[#latencies + 1] = string.format('%.3f', now() - sent[tonumber(number) - first])
  if #latencies == count then finish('') end
end
