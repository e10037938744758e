-- wrk follows a job's log on each connection as gcloud's stream-logs does: it asks, once a second, for the lines since those
-- that it has.
--   wrk ... -s follow.lua URL -- JOB
function init(args)
  job = args[1]
  wrk.headers["Content-Type"] = "application/json"
end

function request()
  local since = os.date("!%Y-%m-%dT%H:%M:%SZ", os.time() - 2)
  local filter = 'resource.type=\\"ml_job\\" AND resource.labels.job_id=\\"' .. job ..
    '\\" AND ((timestamp=\\"' .. since .. '\\" AND insertId>\\"000000000010\\") OR timestamp>\\"' .. since .. '\\")'
  return wrk.format("POST", nil, nil, '{"resourceNames": ["projects/bench"], "orderBy": "timestamp asc", "pageSize": 100, "filter": "' ..
    filter .. '"}')
end

function delay()
  return 1000
end
