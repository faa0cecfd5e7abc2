"""The names of the semantic conventions are those of the pinned package."""

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.attributes.service_attributes import SERVICE_INSTANCE_ID
from opentelemetry.semconv.attributes import error_attributes, service_attributes

from holdfast.features.telemetry import conventions


def test_each_name_and_operation_is_one_of_the_package() -> None:
    theirs = {
        name.removeprefix("GEN_AI_"): value
        for name, value in vars(gen_ai_attributes).items()
        if name.startswith("GEN_AI_") and isinstance(value, str)
    }
    theirs |= {name: value for name, value in vars(service_attributes).items() if name.isupper()}
    theirs |= {name: value for name, value in vars(error_attributes).items() if name.isupper()}
    theirs["SERVICE_INSTANCE_ID"] = SERVICE_INSTANCE_ID
    operations = {one.name: one.value for one in vars(gen_ai_attributes)["GenAiOperationNameValues"]}
    ours = {name: value for name, value in vars(conventions).items() if name.isupper()}
    assert len(ours) > 20
    assert {name: value for name, value in ours.items() if (theirs | operations).get(name) != value} == {}
