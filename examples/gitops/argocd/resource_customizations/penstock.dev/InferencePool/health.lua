-- Health of an InferencePool for Argo CD; `obj` is the live object.
local hs = {}

if obj.metadata.deletionTimestamp ~= nil then
  hs.status = "Progressing"
  hs.message = "the pool is being deleted"
  return hs
end

local observed = obj.status ~= nil and obj.status.observedGeneration
if observed ~= obj.metadata.generation then
  hs.status = "Progressing"
  hs.message = "waiting for the operator to observe the pool's spec"
  return hs
end

local conditions = {}
for _, condition in ipairs(obj.status.conditions or {}) do
  conditions[condition.type] = condition
end

local stalled = conditions.Stalled
if stalled ~= nil and stalled.status == "True" then
  hs.status = "Degraded"
  hs.message = stalled.reason .. ": " .. stalled.message
  return hs
end

local reconciling = conditions.Reconciling
if reconciling ~= nil and reconciling.status == "True" then
  hs.status = "Progressing"
  hs.message = reconciling.reason .. ": " .. reconciling.message
  return hs
end

-- A pool whose spec says zero replicas is Healthy, as a Deployment is: it is the state that Git describes.
local ready = conditions.Ready
if ready == nil or (ready.status ~= "True" and ready.reason ~= "ScaledToZero") then
  hs.status = "Progressing"
  hs.message = "waiting for the pool to become Ready"
  return hs
end

hs.status = "Healthy"
hs.message = ready.message
local policy = conditions.PolicyApplied
if policy ~= nil and policy.status == "False" then
  hs.message = hs.message .. "; " .. policy.reason .. ": " .. policy.message
end
return hs
