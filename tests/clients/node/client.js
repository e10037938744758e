// Google's client of Vertex AI, unmodified, against a service of Summand's: creates, follows, lists, cancels and deletes jobs.
//
//   node client.js HOST:PORT
'use strict';

const assert = require('node:assert/strict');
const {setTimeout: sleep} = require('node:timers/promises');
const {JobServiceClient} = require('@google-cloud/aiplatform').v1;
const {GoogleAuth, PassThroughClient} = require('google-auth-library');

const [host, port] = process.argv[2].split(':');
const parent = 'projects/demo/locations/us-central1';
const ENDED = ['JOB_STATE_SUCCEEDED', 'JOB_STATE_FAILED', 'JOB_STATE_CANCELLED'];

const client = new JobServiceClient({
  apiEndpoint: host,
  port: Number(port),
  protocol: 'http',
  fallback: true,
  auth: new GoogleAuth({authClient: new PassThroughClient()}),
});

function customJob(displayName, script, more = {}) {
  return {
    displayName,
    labels: {team: 'blue'},
    jobSpec: {
      workerPoolSpecs: [{
        replicaCount: 1,
        machineSpec: {machineType: 'n1-standard-4', acceleratorType: 'NVIDIA_TESLA_T4', acceleratorCount: 1},
        containerSpec: {imageUri: 'local', command: ['sh', '-c', script]},
      }],
      scheduling: {timeout: {seconds: 600}},
    },
    ...more,
  };
}

async function follow(name, ...states) {
  for (;;) {
    const [job] = await client.getCustomJob({name});
    if (states.includes(job.state) || ENDED.includes(job.state)) {
      assert.ok(states.includes(job.state), JSON.stringify(job));
      return job;
    }
    await sleep(100);
  }
}

async function main() {
  const [made] = await client.createCustomJob({parent, customJob: customJob('first', 'echo hello')});
  assert.match(made.name, /^projects\/demo\/locations\/us-central1\/customJobs\/\d+$/);
  assert.ok(['JOB_STATE_QUEUED', 'JOB_STATE_PENDING'].includes(made.state), made.state);
  const pool = made.jobSpec.workerPoolSpecs[0];
  assert.equal(String(pool.replicaCount), '1');
  assert.equal(pool.machineSpec.acceleratorType, 'NVIDIA_TESLA_T4');
  assert.equal(String(made.jobSpec.scheduling.timeout.seconds), '600');
  const ended = await follow(made.name, 'JOB_STATE_SUCCEEDED');
  assert.ok(Number(ended.endTime.seconds) >= Number(ended.createTime.seconds));
  assert.deepEqual(ended.labels, {team: 'blue'});

  const [bad] = await client.createCustomJob({parent, customJob: customJob('bad', 'exit 3')});
  const failed = await follow(bad.name, 'JOB_STATE_FAILED');
  assert.match(failed.error.message, /workerpool0-0/);

  const [long] = await client.createCustomJob({parent, customJob: customJob('long', 'sleep 300')});
  await follow(long.name, 'JOB_STATE_RUNNING');
  await client.cancelCustomJob({name: long.name});
  await follow(long.name, 'JOB_STATE_CANCELLED');

  const [all] = await client.listCustomJobs({parent, pageSize: 2});
  assert.deepEqual(all.map(job => job.displayName), ['long', 'bad', 'first']);
  const [some] = await client.listCustomJobs({parent, filter: 'state="JOB_STATE_FAILED" AND labels.team=blue'});
  assert.deepEqual(some.map(job => job.name), [bad.name]);

  const [operation] = await client.deleteCustomJob({name: made.name});
  await operation.promise();
  await assert.rejects(client.getCustomJob({name: made.name}), /does not exist/);
  await assert.rejects(client.createCustomJob({parent, customJob: customJob('', 'true')}), error => {
    assert.match(error.message, /custom_job.display_name/);
    return true;
  });
  console.log('all as it should be');
}

main().catch(error => {
  console.error(error);
  process.exitCode = 1;
});
