"""Plans and goals: a plan that the user can follow and accept, and runs that work until a goal is reached."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(name="plans")
