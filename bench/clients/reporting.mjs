// What every client program for Node shares: the tasks, and a line of JSON for each result.

const degrees = { Bern: "21 degrees", Thun: "19 degrees" };

export class NotOffered extends Error {}

export const weather = (city) => degrees[city];

export async function run(client) {
  const scene = JSON.parse(process.argv[2]);
  const tasks = tasksOf(client, scene);
  for (const task of scene.tasks) {
    let result;
    try {
      result = await withLimit(tasks[task](), scene.limit_s);
    } catch (error) {
      result = error instanceof NotOffered ? null : { raised: said(error) };
      if (result) console.error(error);
    }
    console.log(JSON.stringify({ task, result }));
  }
  process.exit(0);
}

function tasksOf(client, scene) {
  const asking = (fields = {}) => ({ ...scene, retries: 0, timeout_s: 30, ...fields });
  const conversation = async (...prompts) => {
    const [cities, texts] = await client.converse(asking(), prompts);
    return { "called for": cities, texts };
  };
  return {
    plain: () => client.ask(asking(), "plain"),
    stream: async () => {
      const pieces = (await client.stream(asking(), "stream")).filter(Boolean);
      return { text: pieces.join(""), "in pieces": pieces.length > 1 };
    },
    tools: () => conversation("weather Bern"),
    "multi-turn": () => conversation("weather Bern", "weather Thun"),
    structured: () => client.structured(asking(), "structured"),
    errors: async () => {
      const found = {
        "wrong key": await statusOf(client.ask(asking({ key: "not-a-key-of-this-server" }), "plain")),
        "unknown model": await statusOf(client.ask(asking({ model: "no-such-model" }), "plain")),
      };
      for (const kind of ["refused", "quota", "overloaded"]) {
        found[kind] = await statusOf(client.ask(asking(), `error ${kind}`));
      }
      found["half an answer"] = await statusOf(client.stream(asking(), "error half"), "error");
      return found;
    },
    retry: async () => ({ text: (await client.ask(asking(), "retry")).text }),
    timeout: async () => ({ text: (await client.ask(asking({ retries: 2, timeout_s: 1 }), "timeout")).text }),
  };
}

async function statusOf(doing, word) {
  try {
    return `no error, but ${JSON.stringify(await doing)}`;
  } catch (error) {
    if (error instanceof NotOffered) throw error;
    return word ?? error.status ?? error.statusCode ?? error.lastError?.statusCode ?? said(error);
  }
}

const said = (error) => `${error.name}: ${error.message}`.slice(0, 400);

async function withLimit(doing, limit_s) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing within ${limit_s} s`)), limit_s * 1000);
  });
  try {
    return await Promise.race([doing, late]);
  } finally {
    clearTimeout(timer);
  }
}
