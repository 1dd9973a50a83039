// Runs in Node and, as text, in a page of Chromium: everything that a client does, against a real service.
export async function scenario({ Client, ServiceError }, url, fleet) {
  const told = {};
  const client = new Client(url);
  told.ready = await client.health();
  await client.createFleet(fleet, { arms: ["coffee", "cake"], features: ["hour"], reward_events: "sum" });
  const decision = await client.decide(fleet, "a/b ü", { hour: 9.5 });
  told.decision = decision;
  told.news = [
    await client.reward(decision, 1.5, { event: "a" }),
    await client.reward(decision, 1.5, { event: "a" }),
    await client.reward(decision.id, 2.0, { event: "b" }),
  ];
  told.corrected = await client.correct(decision, 3.0, { insteadOf: 3.5 });
  told.logged = await client.decision(decision.id);
  const again = [];
  for (let i = 0; i < 2; i++) again.push((await client.decide(fleet, "t", { hour: 1 }, { key: `${fleet}-1` })).id);
  told.again = again[0] === again[1];
  const many = await client.decideMany(fleet, [
    { task: "t", context: { hour: 1 } },
    { task: "t", context: { hour: 2 }, eligible: ["cake"] },
  ]);
  told.many = many.map((one) => one.arm);
  told.counts = await client.rewardMany([[many[1], 1.0, "a"], [many[1].id, 2.0, "b"], [many[1], 1.0, "a"]]);
  told.ranked = (await client.rank(fleet, "t", { hour: 1 }, 2)).map((one) => one.arm).sort();
  await client.createFleet(`${fleet}-known`, {
    arms: { coffee: { price: 3 }, cake: { price: 4 } }, features: ["hour"], task_features: ["size"], arm_features: ["price"],
  });
  told.known = await client.setTaskFeatures(`${fleet}-known`, { t: { size: 2 }, u: { size: 1 } });
  told.armsWithFeatures = (await client.addArm(`${fleet}-known`, "tea", { price: 2.5 })).arms;
  await client.createFleet(`${fleet}-shop`, { kind: "catalogue", features: ["hour"], arm_features: ["price"] });
  const eligible = { tea: { price: 2.5 }, cake: { price: 4 }, soup: { price: 5 } };
  told.chosen = (await client.choose(`${fleet}-shop`, "t", { hour: 1 }, eligible, { k: 2 })).length;
  await client.addArm(fleet, "tea");
  told.arms = (await client.retireArm(fleet, "tea")).arms;
  told.task = (await client.task(fleet, "a/b ü")).task;
  told.erased = await client.eraseTask(fleet, "a/b ü");
  told.fleets = (await client.fleets()).map((one) => one.name).includes(fleet);
  for (const [name, call] of Object.entries({
    unknown: () => client.fleet("none"),
    conflict: () => client.correct(many[0], 1.0),
    nan: () => client.reward(decision.id, NaN),
  })) {
    try {
      await call();
      told[name] = "nothing was thrown";
    } catch (error) {
      told[name] = error instanceof ServiceError ? [error.status, error.code, error.requestId !== null] : error.name;
    }
  }
  const away = new Client("http://127.0.0.1:9", { fallback: "cake", retries: 0, pause: 60000 });
  const fallen = await away.decide(fleet, "t", { hour: 1 });
  told.fallback = [fallen.arm, fallen.id, fallen.fallback, await away.reward(fallen, 1.0)];
  told.skipped = (await away.decide(fleet, "t", { hour: 1 })).reason;
  return told;
}
